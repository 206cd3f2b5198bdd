//! When windows are taken: they stop a program, so they may take a part of its time.

/// One over the part of the real time that windows may take: at first, then while a thread is in code where none has
/// been, and otherwise.
const FIRST_COST: u32 = 4;
const WINDOW_COST: u32 = 20;
const KNOWN_COST: u32 = 40;
/// Windows that are taken at first, and how many of them only in code where none has been.
const FIRST_WINDOWS: u64 = 8;
const FIRST_ELSEWHERE: u64 = 4;

/// After so many windows, the time of them all over which the next one is taken, when a thread is `elsewhere`, in code
/// where no window has been, or not.
pub fn cost(windows: u64, elsewhere: bool) -> u32 {
    let first = match elsewhere {
        true => FIRST_WINDOWS,
        false => FIRST_WINDOWS - FIRST_ELSEWHERE,
    };
    match (windows < first, elsewhere) {
        (true, _) => FIRST_COST,
        (false, true) => WINDOW_COST,
        (false, false) => KNOWN_COST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_windows_are_more_and_some_are_kept_for_other_code() {
        let costs = |elsewhere| [0, 3, 4, 7, 8, 100].map(|windows| cost(windows, elsewhere));
        assert_eq!(costs(true), [4, 4, 4, 4, 20, 20]);
        assert_eq!(costs(false), [4, 4, 40, 40, 40, 40]);
    }
}
