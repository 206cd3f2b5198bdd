//! Parses the guest's serial line, which carries messages to cxlab and the program's output.
//! Nothing of it is trusted: lines are bounded, and control characters are removed.

/// Start of a message to cxlab.
const MARK: &str = "@cxlab ";
/// Most bytes of a line. A longer line is split.
const LONGEST: usize = 4096;

/// A message of the guest.
#[derive(Clone, PartialEq, Debug)]
pub enum GuestMessage {
    /// The first process began, this many seconds after the kernel.
    Up(f64),
    /// A window has become a region with an address and a NUMA node.
    Window {
        /// Number of the window.
        number: usize,
        /// First address of the region in the guest.
        address: u64,
        /// NUMA node of the region.
        node: u32,
    },
    /// All windows have become regions, this many seconds after the kernel.
    Ready(f64),
    /// Name of the clock source of the guest's kernel.
    Clock(String),
    /// The guest waits to be released. It may be saved until then.
    Hold,
    /// A program begins, bound to this memory.
    Begin(String),
    /// Duration of the program by the guest's clock, in nanoseconds.
    Took(u64),
    /// The program exited with this code.
    End(i32),
    /// Something that the guest needs does not work.
    Failed(String),
    /// All programs have ended.
    Done,
    /// A line of the program's output.
    Line(String),
}

/// Splits the bytes of the serial line into messages.
#[derive(Default)]
pub struct Console {
    line: Vec<u8>,
}

impl Console {
    /// Parses the next bytes.
    pub fn feed(&mut self, bytes: &[u8], mut said: impl FnMut(GuestMessage)) {
        for byte in bytes {
            if *byte == b'\n' || self.line.len() == LONGEST {
                said(understand(&std::mem::take(&mut self.line)));
            }
            if *byte != b'\n' {
                self.line.push(*byte);
            }
        }
    }

    /// Parses the rest of the stream, which has no end of line.
    pub fn finish(&mut self, mut said: impl FnMut(GuestMessage)) {
        if !self.line.is_empty() {
            said(understand(&std::mem::take(&mut self.line)));
        }
    }
}

/// A line without characters that would control a terminal.
fn clean(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let shown = |c: &char| *c == '\t' || !c.is_control();
    text.chars().filter(shown).collect()
}

fn understand(line: &[u8]) -> GuestMessage {
    let text = clean(line);
    let known = text.strip_prefix(MARK).and_then(word);
    known.unwrap_or(GuestMessage::Line(text))
}

fn word(text: &str) -> Option<GuestMessage> {
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    Some(match first {
        "up" => GuestMessage::Up(rest.parse().ok()?),
        "ready" => GuestMessage::Ready(rest.parse().ok()?),
        "clock" => GuestMessage::Clock(rest.to_owned()),
        "hold" => GuestMessage::Hold,
        "begin" => GuestMessage::Begin(rest.to_owned()),
        "took" => GuestMessage::Took(rest.parse().ok()?),
        "end" => GuestMessage::End(rest.rsplit(' ').next()?.parse().ok()?),
        "failed" => GuestMessage::Failed(rest.to_owned()),
        "done" => GuestMessage::Done,
        "window" => {
            let mut words = rest.split(' ');
            let number = words.next()?.parse().ok()?;
            let address = words.nth(1)?.strip_prefix("0x")?;
            GuestMessage::Window {
                number,
                address: u64::from_str_radix(address, 16).ok()?,
                node: words.next()?.parse().ok()?,
            }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pieces: &[&[u8]]) -> Vec<GuestMessage> {
        let mut console = Console::default();
        let mut all = Vec::new();
        for piece in pieces {
            console.feed(piece, |said| all.push(said));
        }
        console.finish(|said| all.push(said));
        all
    }

    #[test]
    fn words_and_output_are_told_apart_however_the_bytes_come() {
        let said = all(&[
            b"@cxlab up 3.67\n@cx",
            b"lab window 1 region1 0x6f0000000 2\nhello\r",
            b"\n@cxlab end ssd 3\n@cxlab nonsense\n@cxlab took x\nlast",
        ]);
        let line = |text: &str| GuestMessage::Line(text.to_owned());
        assert_eq!(
            said,
            [
                GuestMessage::Up(3.67),
                GuestMessage::Window {
                    number: 1,
                    address: 0x6_f000_0000,
                    node: 2
                },
                line("hello"),
                GuestMessage::End(3),
                line("@cxlab nonsense"),
                line("@cxlab took x"),
                line("last"),
            ]
        );
    }

    #[test]
    fn what_a_terminal_would_obey_is_taken_out() {
        let said = all(&[b"\x1b]0;title\x07a\tb\xff\x9b1m\n"]);
        let [GuestMessage::Line(text)] = &said[..] else {
            panic!("{said:?}");
        };
        assert!(text.starts_with("]0;titlea\tb"), "{text:?}");
        assert!(!text.chars().any(|c| c.is_control() && c != '\t'));
    }

    #[test]
    fn a_line_without_end_does_not_grow() {
        let said = all(&[&[b'x'; 10 * LONGEST]]);
        assert_eq!(said.len(), 10);
        assert!(
            said.iter()
                .all(|one| matches!(one, GuestMessage::Line(text) if text.len() <= LONGEST))
        );
    }
}
