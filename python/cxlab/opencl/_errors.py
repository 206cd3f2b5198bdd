"""Errors of the OpenCL-style front."""

from __future__ import annotations


class Error(RuntimeError):
    """A call that OpenCL, or this front of it, refuses.

    ``code`` is the name of OpenCL's error code, such as ``"INVALID_WORK_GROUP_SIZE"``.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
