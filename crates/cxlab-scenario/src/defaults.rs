//! Functions that serde calls for defaults of several tables, and to leave defaults out.

pub(crate) fn one() -> u32 {
    1
}

pub(crate) fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
pub(crate) fn is_yes(value: &bool) -> bool {
    *value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
pub(crate) fn is_zero(value: &u32) -> bool {
    *value == 0
}
