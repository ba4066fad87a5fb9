"""Errors that are told to the user in one message, without a stack trace, and the code the command then exits with."""

from __future__ import annotations

from orchestrator.exit_codes import SYSTEM_FAILED, WRONG_REQUEST


class RequestError(Exception):
    """The command asks for something that is not there; the message says what is."""

    exit_code = WRONG_REQUEST


class NotThereError(RequestError):
    """What is asked for by its name (a sweep, a paper) does not exist."""


class StoreError(Exception):
    """The database cannot be used; the message says why and what to do."""

    exit_code = SYSTEM_FAILED


class ExecutorError(Exception):
    """Batches cannot be run at all; the message says why and what to do."""

    exit_code = SYSTEM_FAILED


class PreparationError(ExecutorError):
    """The sweep itself cannot be prepared (its data, or code it brings): the user's to mend."""

    exit_code = WRONG_REQUEST


class ServiceError(Exception):
    """The service cannot be reached or does not answer as one should; the message says why and what to do."""

    exit_code = SYSTEM_FAILED
