//! The data of a line, of which a model stores only the age.

use super::coded_enum;

coded_enum! {
    /// The age of a value.
    #[derive(Default)]
    pub enum Data {
        #[default]
        None,
        Fresh,
        Recent,
        Stale,
    }
}

/// Makes each value of one age older: a store makes fresh values recent; recent values that no load
/// may return any more count as stale.
pub fn age<'d>(values: impl Iterator<Item = &'d mut Data>, from: Data, to: Data) {
    for data in values.filter(|data| **data == from) {
        *data = to;
    }
}
