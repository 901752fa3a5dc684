"""The same job on RQ, Celery, Dramatiq and Huey, run by an interpreter that has them."""
