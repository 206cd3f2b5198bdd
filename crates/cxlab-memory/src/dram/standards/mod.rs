//! The DRAM standards, one file each. Each file names the source of every value.

mod ddr4;
mod ddr5;
mod hbm1;
mod hbm2;
mod hbm3;
mod hbm4;
mod lpddr4;
mod lpddr5;
mod lpddr6;

use super::standard::{DramStandard, SpeedGrade};

/// All standards that a scenario can name.
pub(crate) static STANDARDS: &[&DramStandard] = &[
    &ddr4::DDR4,
    &ddr5::DDR5,
    &lpddr4::LPDDR4,
    &lpddr5::LPDDR5,
    &lpddr6::LPDDR6,
    &hbm1::HBM1,
    &hbm2::HBM2,
    &hbm3::HBM3,
    &hbm4::HBM4,
];

/// The grade of that name, with its standard.
pub(crate) fn find(grade: &str) -> Option<(&'static DramStandard, &'static SpeedGrade)> {
    grades().find(|(_, one)| one.name == grade)
}

/// Every grade with its standard.
pub(crate) fn grades() -> impl Iterator<Item = (&'static DramStandard, &'static SpeedGrade)> {
    STANDARDS
        .iter()
        .flat_map(|standard| standard.grades.iter().map(move |grade| (*standard, grade)))
}
