//! Refused parameters: the field, the value found and the values allowed.

use std::fmt::Display;
use std::ops::RangeInclusive;

use cxlab_engine::catalog::ParamError;

/// An error that says what was found and what is allowed.
pub(crate) fn refused(field: &str, found: impl Display, allowed: impl Display) -> ParamError {
    ParamError::new(field, format!("found {found}; allowed: {allowed}"))
}

/// Refuses a parameter that is out of range.
pub(crate) fn in_range<T: PartialOrd + Display>(
    field: &str,
    found: T,
    range: RangeInclusive<T>,
) -> Result<(), ParamError> {
    match range.contains(&found) {
        true => Ok(()),
        false => {
            let allowed = format!("{} to {}", range.start(), range.end());
            Err(refused(field, found, allowed))
        }
    }
}

/// Prefixes the field of an error with the name of the part that refuses its parameters.
pub(crate) fn in_part<T>(part: &str, found: Result<T, ParamError>) -> Result<T, ParamError> {
    found.map_err(|error| {
        let field = match error.field.as_str() {
            "" => part.to_owned(),
            field => format!("{part}.{field}"),
        };
        ParamError::new(field, error.message)
    })
}
