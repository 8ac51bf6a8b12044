#!/bin/sh
# Reads the database's password from the file that holds it, if there is one, and becomes the command.
set -eu
if [ -n "${PGPASSWORD_FILE:-}" ]; then
  PGPASSWORD=$(cat "$PGPASSWORD_FILE")
  export PGPASSWORD
fi
exec "$@"
