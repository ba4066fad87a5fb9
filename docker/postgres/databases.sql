-- Run by Postgres's image once, over an empty volume: a database for each of slotsweep, Optuna and MLflow, and one for
-- MLflow's users. Each belongs to a role that can enter no other.
\getenv slotsweep_password SLOTSWEEP_DB_PASSWORD
\getenv optuna_password OPTUNA_DB_PASSWORD
\getenv mlflow_password MLFLOW_DB_PASSWORD

CREATE ROLE slotsweep LOGIN PASSWORD :'slotsweep_password';
CREATE ROLE optuna LOGIN PASSWORD :'optuna_password';
CREATE ROLE mlflow LOGIN PASSWORD :'mlflow_password';

CREATE DATABASE slotsweep OWNER slotsweep;
CREATE DATABASE optuna OWNER optuna;
CREATE DATABASE mlflow OWNER mlflow;
CREATE DATABASE mlflow_users OWNER mlflow;

REVOKE CONNECT, TEMPORARY ON DATABASE postgres, slotsweep, optuna, mlflow, mlflow_users FROM PUBLIC;
