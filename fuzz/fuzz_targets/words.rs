//! Short texts: quantities and other arguments of the command line, QEMU's version output, and a
//! guest's console. The first byte selects the kind.
#![no_main]

use std::fmt::{Debug, Display};
use std::str::FromStr;

use cxlab_attach::placement::{self, Placement};
use cxlab_engine::units::{Bytes, BytesPerSec, PartsPerMillion, Picos};
use cxlab_fuzz::Choices;
use cxlab_system::checkpoint::CheckpointInterval;
use cxlab_vm::console::{Console, GuestMessage};
use cxlab_vm::qemu::Version;
use cxlab_workload::Hierarchy;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let kind = choices.byte();
    if kind % 9 == 8 {
        return console(&mut choices);
    }
    let text = String::from_utf8_lossy(choices.0);
    match kind % 9 {
        0 => same::<Bytes>(&text),
        1 => same::<BytesPerSec>(&text),
        2 => same::<PartsPerMillion>(&text),
        3 => same::<Picos>(&text),
        4 => same::<Hierarchy>(&text),
        5 => told(text.parse::<CheckpointInterval>()),
        6 => {
            told(text.parse::<Placement>());
            let _ = placement::bytes(&text);
        }
        _ => {
            let _ = Version::from_text(&text);
        }
    }
});

/// Refused text must give a message.
fn told<T, E: Display>(read: Result<T, E>) {
    if let Err(error) = read {
        assert!(!error.to_string().is_empty());
    }
}

/// A parsed value must be equal after it is written and parsed again.
fn same<T>(text: &str)
where
    T: FromStr<Err: Display + Debug> + Display + PartialEq + Debug,
{
    match text.parse::<T>() {
        Ok(value) => {
            let again = value.to_string().parse::<T>();
            assert_eq!(again.expect("it was written just now"), value);
        }
        Err(error) => told::<T, _>(Err(error)),
    }
}

/// A guest's bytes give the same messages however they are split, and a terminal may show them.
fn console(choices: &mut Choices<'_>) {
    let piece = 1 + usize::from(choices.byte());
    let mut pieces = Vec::new();
    let mut in_pieces = Console::default();
    for bytes in choices.0.chunks(piece) {
        in_pieces.feed(bytes, |said| pieces.push(format!("{said:?}")));
    }
    in_pieces.finish(|said| pieces.push(format!("{said:?}")));
    let mut whole = Vec::new();
    let mut at_once = Console::default();
    let mut take = |said: GuestMessage| {
        let text = match &said {
            GuestMessage::Line(text)
            | GuestMessage::Begin(text)
            | GuestMessage::Clock(text)
            | GuestMessage::Failed(text) => text,
            _ => "",
        };
        assert!(!text.chars().any(|c| c.is_control() && c != '\t'));
        whole.push(format!("{said:?}"));
    };
    at_once.feed(choices.0, &mut take);
    at_once.finish(&mut take);
    assert_eq!(pieces, whole);
}
