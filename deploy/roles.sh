#!/bin/sh
# Runs once, when the database is new: `migrate` owns the tables, `mcc` and `drone` only use them; a drone deletes nothing.
set -eu

psql --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
    --set migrate="$(cat /run/secrets/migrate_password)" \
    --set mcc="$(cat /run/secrets/mcc_password)" \
    --set drone="$(cat /run/secrets/drone_password)" <<'SQL'
CREATE ROLE migrate LOGIN PASSWORD :'migrate';
CREATE ROLE mcc LOGIN PASSWORD :'mcc';
CREATE ROLE drone LOGIN PASSWORD :'drone';
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT CREATE, USAGE ON SCHEMA public TO migrate;
GRANT USAGE ON SCHEMA public TO mcc, drone;
ALTER DEFAULT PRIVILEGES FOR ROLE migrate IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO mcc;
ALTER DEFAULT PRIVILEGES FOR ROLE migrate IN SCHEMA public GRANT SELECT, INSERT, UPDATE ON TABLES TO drone;
ALTER DEFAULT PRIVILEGES FOR ROLE migrate IN SCHEMA public GRANT USAGE ON SEQUENCES TO mcc, drone;
SQL
