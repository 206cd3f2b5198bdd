//! What comes from the guest's serial line: words for cxlab, and the program's output. Nothing of it
//! is trusted: lines are bounded, and characters that a terminal would obey are taken out.

/// What begins a word for cxlab.
const MARK: &str = "@cxlab ";
/// Bytes of a line; what is longer comes in pieces.
const LONGEST: usize = 4096;

/// What the guest said.
#[derive(Clone, PartialEq, Debug)]
pub enum Said {
    /// The first process began, so many seconds after the kernel.
    Up(f64),
    /// A window has become a region, at an address, and a NUMA node.
    Window {
        /// The window.
        number: usize,
        /// Its first address in the guest.
        address: u64,
        /// The node.
        node: u32,
    },
    /// All windows have.
    Ready(f64),
    /// What the guest's kernel reads the time from.
    Clock(String),
    /// It waits to be let go, and may be saved until then.
    Hold,
    /// The program begins, for a memory.
    Begin(String),
    /// It took so long by the guest's clock.
    Took(u64),
    /// It ended with this code.
    End(i32),
    /// Something that the guest needs does not work.
    Failed(String),
    /// All is done.
    Done,
    /// A line of output.
    Line(String),
}

/// Takes bytes, gives lines.
#[derive(Default)]
pub struct Console {
    line: Vec<u8>,
}

impl Console {
    /// The next bytes.
    pub fn feed(&mut self, bytes: &[u8], mut said: impl FnMut(Said)) {
        for byte in bytes {
            if *byte == b'\n' || self.line.len() == LONGEST {
                said(understand(&std::mem::take(&mut self.line)));
            }
            if *byte != b'\n' {
                self.line.push(*byte);
            }
        }
    }

    /// What is left without an end of line.
    pub fn finish(&mut self, mut said: impl FnMut(Said)) {
        if !self.line.is_empty() {
            said(understand(&std::mem::take(&mut self.line)));
        }
    }
}

/// A line as a terminal may show it.
fn clean(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let shown = |c: &char| *c == '\t' || !c.is_control();
    text.chars().filter(shown).collect()
}

fn understand(line: &[u8]) -> Said {
    let text = clean(line);
    let known = text.strip_prefix(MARK).and_then(word);
    known.unwrap_or(Said::Line(text))
}

fn word(text: &str) -> Option<Said> {
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    Some(match first {
        "up" => Said::Up(rest.parse().ok()?),
        "ready" => Said::Ready(rest.parse().ok()?),
        "clock" => Said::Clock(rest.to_owned()),
        "hold" => Said::Hold,
        "begin" => Said::Begin(rest.to_owned()),
        "took" => Said::Took(rest.parse().ok()?),
        "end" => Said::End(rest.rsplit(' ').next()?.parse().ok()?),
        "failed" => Said::Failed(rest.to_owned()),
        "done" => Said::Done,
        "window" => {
            let mut words = rest.split(' ');
            let number = words.next()?.parse().ok()?;
            let address = words.nth(1)?.strip_prefix("0x")?;
            Said::Window {
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

    fn all(pieces: &[&[u8]]) -> Vec<Said> {
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
        let line = |text: &str| Said::Line(text.to_owned());
        assert_eq!(
            said,
            [
                Said::Up(3.67),
                Said::Window {
                    number: 1,
                    address: 0x6_f000_0000,
                    node: 2
                },
                line("hello"),
                Said::End(3),
                line("@cxlab nonsense"),
                line("@cxlab took x"),
                line("last"),
            ]
        );
    }

    #[test]
    fn what_a_terminal_would_obey_is_taken_out() {
        let said = all(&[b"\x1b]0;title\x07a\tb\xff\x9b1m\n"]);
        let [Said::Line(text)] = &said[..] else {
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
                .all(|one| matches!(one, Said::Line(text) if text.len() <= LONGEST))
        );
    }
}
