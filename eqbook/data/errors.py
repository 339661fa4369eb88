"""The errors of the data folder. All are `ValueError`s, so `except ValueError` catches every bad input of `eqbook`."""


class DataError(ValueError):
    """Data could not be had or could not be trusted."""


class DataDirectoryError(DataError):
    """The directory for data is missing, is not a directory, or cannot be written."""


class AlteredFileError(DataError):
    """A file is not the one that was published: wrong length, wrong sha256, or not readable as what it claims to be."""


class UnreachableError(DataError):
    """No route led to the data. The message lists what was tried, and how to place the files by hand."""


class RouteError(DataError):
    """One route (an address, a package manager) failed; the next one is tried."""
