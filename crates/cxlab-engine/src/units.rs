//! Quantities as types. Points in time subtract to spans and never add; sizes, rates and addresses do not
//! mix. All are integers: `f64` is for reports alone.
//!
//! In text a quantity has its unit: `"25 ns"`, `"64 GiB"`, `"32 GB/s"`. Times, sizes and percentages are
//! exact: a value that is not a whole number of the finest unit is refused. A rate is rounded to the
//! nearest whole number of bytes per second.
//!
//! ```
//! use cxlab_engine::units::{Bytes, BytesPerSec, Picos, SimTime};
//!
//! let now = SimTime::ZERO + Picos::from_nanos(25);
//! assert_eq!(now - SimTime(5_000), "20 ns".parse::<Picos>()?);
//! assert_eq!("32 GB/s".parse::<BytesPerSec>()?.time_for(Bytes(64)), Picos(2_000));
//! assert!("0.5 ps".parse::<Picos>().is_err());
//! assert_eq!("38.4 GiB/s".parse::<BytesPerSec>()?, BytesPerSec(41_231_686_042));
//! # Ok::<(), cxlab_engine::units::ParseQuantityError>(())
//! ```

use std::borrow::Cow;
use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point in simulated time, in picoseconds since the start of the run.
///
/// Range: 0 to 2^64 - 1 ps, which is 213 days of simulated time.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Debug,
)]
pub struct SimTime(pub u64);

/// A span of simulated time, in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Picos(pub u64);

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Bytes(pub u64);

/// A data rate in bytes per second. In text it may have a fraction of a byte per second, and is rounded to
/// the nearest whole number (half a byte per second is rounded up): `"38.4 GiB/s"` is 41,231,686,042 B/s.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct BytesPerSec(pub u64);

/// A fraction in parts per million: 10,000 are 1 %.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct PartsPerMillion(pub u64);

/// A host physical address (byte granular).
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Debug,
)]
pub struct Hpa(pub u64);

/// A device physical address (byte granular). An HDM decoder translates an [`Hpa`] to it.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Debug,
)]
pub struct Dpa(pub u64);

/// Size of a cache line in bytes: CXL.mem and CXL.cache move data in lines of 64 bytes.
pub const LINE_BYTES: u64 = 64;

/// The number of a 64-byte line: an address divided by [`LINE_BYTES`].
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Debug,
)]
pub struct LineAddr(pub u64);

impl SimTime {
    /// The start of the run.
    pub const ZERO: SimTime = SimTime(0);
    /// A time later than every event of any run.
    pub const NEVER: SimTime = SimTime(u64::MAX);

    /// The span from `earlier` to `self`.
    ///
    /// # Panics
    /// If `earlier` is later than `self`, which is an error of the model.
    #[inline]
    pub fn since(self, earlier: SimTime) -> Picos {
        match self.0.checked_sub(earlier.0) {
            Some(span) => Picos(span),
            None => panic!("time ran backwards: {} ps since {} ps", self.0, earlier.0),
        }
    }
}

impl Picos {
    /// A span of no time.
    pub const ZERO: Picos = Picos(0);

    /// A span of whole nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Picos {
        Picos(nanos * 1_000)
    }

    /// This span in nanoseconds, for reports.
    pub fn as_nanos_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }
}

impl Hpa {
    /// The line that contains this address.
    #[inline]
    pub fn line(self) -> LineAddr {
        LineAddr(self.0 / LINE_BYTES)
    }
}

impl Dpa {
    /// The line that contains this address.
    #[inline]
    pub fn line(self) -> LineAddr {
        LineAddr(self.0 / LINE_BYTES)
    }
}

impl BytesPerSec {
    /// The time that `bytes` take at this rate, rounded up to a whole picosecond. A rate of 0 counts
    /// as 1 B/s.
    pub fn time_for(self, bytes: Bytes) -> Picos {
        let picos = (u128::from(bytes.0) * 1_000_000_000_000).div_ceil(u128::from(self.0.max(1)));
        Picos(u64::try_from(picos).unwrap_or(u64::MAX))
    }

    /// This rate in GB/s (10^9 bytes per second), for reports.
    pub fn as_gb_per_s(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add<Picos> for SimTime {
    type Output = SimTime;
    #[inline]
    fn add(self, span: Picos) -> SimTime {
        SimTime(self.0 + span.0)
    }
}

impl AddAssign<Picos> for SimTime {
    #[inline]
    fn add_assign(&mut self, span: Picos) {
        self.0 += span.0;
    }
}

impl Sub<SimTime> for SimTime {
    type Output = Picos;
    #[inline]
    fn sub(self, earlier: SimTime) -> Picos {
        self.since(earlier)
    }
}

impl Add for Picos {
    type Output = Picos;
    #[inline]
    fn add(self, other: Picos) -> Picos {
        Picos(self.0 + other.0)
    }
}

impl AddAssign for Picos {
    #[inline]
    fn add_assign(&mut self, other: Picos) {
        self.0 += other.0;
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0 + other.0)
    }
}

/// The error for a text that is not the quantity that was expected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseQuantityError {
    /// The text that was found.
    pub found: String,
    /// A description of what is allowed, for the message.
    pub expected: Cow<'static, str>,
}

impl fmt::Display for ParseQuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not {}", self.found, self.expected)
    }
}

impl std::error::Error for ParseQuantityError {}

/// What happens to a value that is not a whole number of its finest unit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Remainder {
    /// The value is refused.
    Refused,
    /// The value is rounded to the nearest whole number, a half up.
    Rounded,
}

/// Reads `NUMBER UNIT` with a decimal number and one of `units`. `remainder` says what happens to a value
/// that is not a whole number of the unit with scale 1.
fn parse_quantity(
    text: &str,
    units: &[(&str, u64)],
    expected: &'static str,
    remainder: Remainder,
) -> Result<u64, ParseQuantityError> {
    let fail = || ParseQuantityError {
        found: text.to_owned(),
        expected: Cow::Borrowed(expected),
    };
    let refused = |expected: String| ParseQuantityError {
        found: text.to_owned(),
        expected: Cow::Owned(expected),
    };
    let trimmed = text.trim();
    if trimmed.starts_with('-') {
        return Err(refused(format!("0 or more: {expected}")));
    }
    let split = trimmed
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .ok_or_else(fail)?;
    let number: String = trimmed[..split].chars().filter(|c| *c != '_').collect();
    let unit = trimmed[split..].trim();
    let Some((_, scale)) = units.iter().find(|(name, _)| *name == unit) else {
        let meant = units
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(unit));
        return Err(meant.map_or_else(fail, |(name, _)| {
            refused(format!("{expected}; did you mean \"{number} {name}\"?"))
        }));
    };
    let (largest, most) = units[0];
    let too_large = || refused(format!("at most {} {largest}", u64::MAX / most));
    let scale = u128::from(*scale);
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.len() > 18 || fraction.contains('.') {
        return Err(fail());
    }
    let parse = |digits: &str| -> Result<u128, ParseQuantityError> {
        if digits.is_empty() {
            Ok(0)
        } else {
            digits.parse().map_err(|_| too_large())
        }
    };
    let denominator = 10u128.pow(fraction.len() as u32);
    let numerator = parse(whole)?
        .checked_mul(denominator)
        .and_then(|n| n.checked_add(parse(fraction).ok()?))
        .and_then(|n| n.checked_mul(scale))
        .ok_or_else(too_large)?;
    let rest = numerator % denominator;
    let is_rounded_up = remainder == Remainder::Rounded && rest >= denominator - rest;
    let whole = numerator / denominator + u128::from(is_rounded_up);
    let whole = u64::try_from(whole).map_err(|_| too_large())?;
    if remainder == Remainder::Refused && rest != 0 {
        let base = units.iter().find(|(_, scale)| *scale == 1);
        let base = base.map_or("", |(name, _)| *name);
        return Err(refused(format!(
            "a whole number of {base}, the finest unit; nearest: \"{whole} {base}\" and \"{} {base}\"",
            whole.saturating_add(1)
        )));
    }
    Ok(whole)
}

/// Writes `value` in the first of `units` whose scale divides it.
fn format_quantity(value: u64, units: &[(&str, u64)], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (name, scale) in units {
        if value.is_multiple_of(*scale) && (value != 0 || *scale == 1) {
            return write!(f, "{} {}", value / scale, name);
        }
    }
    write!(f, "{value}")
}

const TIME_UNITS: &[(&str, u64)] = &[
    ("s", 1_000_000_000_000),
    ("ms", 1_000_000_000),
    ("us", 1_000_000),
    ("ns", 1_000),
    ("ps", 1),
];
const BYTE_UNITS: &[(&str, u64)] = &[
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];
const RATE_UNITS: &[(&str, u64)] = &[
    ("TB/s", 1_000_000_000_000),
    ("GB/s", 1_000_000_000),
    ("MB/s", 1_000_000),
    ("kB/s", 1_000),
    ("GiB/s", 1 << 30),
    ("MiB/s", 1 << 20),
    ("KiB/s", 1 << 10),
    ("B/s", 1),
];

const PERCENT_UNITS: &[(&str, u64)] = &[("%", 10_000), ("ppm", 1)];

const PERCENT_EXPECTED: &str = "a part such as \"1 %\" (units: %, ppm)";
const TIME_EXPECTED: &str = "a time such as \"25 ns\" (units: ps, ns, us, ms, s)";
const BYTES_EXPECTED: &str =
    "a size such as \"64 GiB\" (units: B, KiB, MiB, GiB, TiB, kB, MB, GB, TB)";
const RATE_EXPECTED: &str =
    "a rate such as \"32 GB/s\" (units: B/s, kB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s)";

macro_rules! quantity_text {
    ($type:ident, $units:expr, $remainder:ident, $expected:expr, $pattern:expr) => {
        impl FromStr for $type {
            type Err = ParseQuantityError;
            fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
                parse_quantity(text, $units, $expected, Remainder::$remainder).map($type)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                format_quantity(self.0, $units, f)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match serializer.is_human_readable() {
                    true => serializer.collect_str(self),
                    false => serializer.serialize_u64(self.0),
                }
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                if !deserializer.is_human_readable() {
                    return u64::deserialize(deserializer).map($type);
                }
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "format": stringify!($type),
                    "description": $expected,
                    "pattern": $pattern,
                })
            }
        }
    };
}

quantity_text!(
    Picos,
    TIME_UNITS,
    Refused,
    TIME_EXPECTED,
    r"^\s*[0-9_]*\.?[0-9_]+\s*(ps|ns|us|ms|s)\s*$"
);
quantity_text!(
    PartsPerMillion,
    PERCENT_UNITS,
    Refused,
    PERCENT_EXPECTED,
    r"^\s*[0-9_]*\.?[0-9_]+\s*(%|ppm)\s*$"
);
quantity_text!(
    Bytes,
    BYTE_UNITS,
    Refused,
    BYTES_EXPECTED,
    r"^\s*[0-9_]*\.?[0-9_]+\s*([KMGT]iB|[kMGT]?B)\s*$"
);
quantity_text!(
    BytesPerSec,
    RATE_UNITS,
    Rounded,
    RATE_EXPECTED,
    r"^\s*[0-9_]*\.?[0-9_]+\s*([KMG]iB/s|[kMGT]?B/s)\s*$"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_exactly_what_they_print() {
        for text in ["25 ns", "1500 ps", "3 us", "0 ps", "1 s"] {
            assert_eq!(text.parse::<Picos>().unwrap().to_string(), text);
        }
        assert_eq!("1.5 ns".parse::<Picos>().unwrap(), Picos(1500));
        assert_eq!("64GiB".parse::<Bytes>().unwrap(), Bytes(64 << 30));
        assert_eq!(
            "31.5 GB/s".parse::<BytesPerSec>().unwrap(),
            BytesPerSec(31_500_000_000)
        );
    }

    #[test]
    fn a_quantity_without_unit_or_finer_than_its_base_is_refused() {
        for text in [
            "25",
            "",
            "ns",
            "1.5 ps",
            "-1 ns",
            "1e3 ns",
            "1..5 ns",
            "1 nS",
            "99999999999 s",
        ] {
            assert!(text.parse::<Picos>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_fraction_of_the_base_unit_is_refused_with_the_reason_and_the_nearest() {
        let error = "0.4167 ns".parse::<Picos>().unwrap_err().to_string();
        assert_eq!(
            error,
            "`0.4167 ns` is not a whole number of ps, the finest unit; nearest: \"416 ps\" and \"417 ps\""
        );
        let error = "1.0005 kB".parse::<Bytes>().unwrap_err().to_string();
        assert!(
            error.contains("whole number of B") && error.contains("\"1001 B\""),
            "{error}"
        );
    }

    #[test]
    fn a_rate_is_rounded_to_the_nearest_byte_per_second() {
        for (text, rate) in [
            ("38.4 GiB/s", 41_231_686_042),
            ("0.3 KiB/s", 307),
            ("1.5 B/s", 2),
            ("1.49 B/s", 1),
            ("0.4 B/s", 0),
            ("0.000000000000000001 TB/s", 0),
            ("18446744073709551615.4 B/s", u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(BytesPerSec(rate)), "{text}");
        }
        // What is printed is read as the same rate.
        let rate: BytesPerSec = "38.4 GiB/s".parse().unwrap();
        assert_eq!(rate.to_string().parse(), Ok(rate));
        let refused = "18446744073709551615.5 B/s".parse::<BytesPerSec>();
        assert!(refused.is_err());
    }

    #[test]
    fn a_transfer_never_takes_less_than_its_rate_allows() {
        let rate = BytesPerSec(63_015_384_615);
        assert_eq!(rate.time_for(Bytes(68)), Picos(1080));
        assert_eq!(
            BytesPerSec(1_000_000_000_000).time_for(Bytes(64)),
            Picos(64)
        );
    }
}
