#!/bin/sh
# Read the passwords of the database and of Prefect from their files, where there are any, and exec the command.
set -eu
if [ -n "${PGPASSWORD_FILE:-}" ]; then
  PGPASSWORD=$(cat "$PGPASSWORD_FILE")
  export PGPASSWORD
fi
if [ -n "${PREFECT_PASSWORD_FILE:-}" ]; then
  PREFECT_API_AUTH_STRING="concord:$(cat "$PREFECT_PASSWORD_FILE")"
  PREFECT_SERVER_API_AUTH_STRING=$PREFECT_API_AUTH_STRING
  export PREFECT_API_AUTH_STRING PREFECT_SERVER_API_AUTH_STRING
fi
exec "$@"
