#!/bin/sh
# Read the database's password from its file, if there is one, and exec the command.
set -eu
if [ -n "${PGPASSWORD_FILE:-}" ]; then
  PGPASSWORD=$(cat "$PGPASSWORD_FILE")
  export PGPASSWORD
fi
exec "$@"
