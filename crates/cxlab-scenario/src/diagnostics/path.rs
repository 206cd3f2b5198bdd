//! Paths in a document: `fabric.topology.switches`, `hosts[2].workload."odd key"`.

use std::fmt;

/// A step of a path: a key, or a number in a list.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Segment {
    Key(String),
    /// An entry of an array, counted from zero.
    Index(usize),
}

/// The steps from the top of the document to a value. The order puts every path right before the
/// paths below it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Path(pub Vec<Segment>);

impl Path {
    /// Reads a whole path; the empty text is the document itself.
    pub(super) fn parse(text: &str) -> Result<Path, String> {
        if text.trim().is_empty() {
            return Ok(Path::default());
        }
        match Path::parse_prefix(text)? {
            (path, "") => Ok(path),
            (_, rest) => Err(format!("unexpected `{rest}` after the path")),
        }
    }

    /// Reads a path up to an `=` outside quotes or the end, and returns it with the rest.
    pub(super) fn parse_prefix(text: &str) -> Result<(Path, &str), String> {
        let mut path = Path::default();
        let (key, mut rest) = read_key(text)?;
        path.0.push(Segment::Key(key));
        loop {
            rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix('.') {
                let (key, after) = read_key(after)?;
                path.0.push(Segment::Key(key));
                rest = after;
            } else if let Some(after) = rest.strip_prefix('[') {
                let (index, after) = read_index(after)?;
                path.0.push(Segment::Index(index));
                rest = after;
            } else {
                return Ok((path, rest));
            }
        }
    }

    pub(super) fn key(&self, key: &str) -> Path {
        self.child(Segment::Key(key.to_owned()))
    }

    pub(super) fn index(&self, index: usize) -> Path {
        self.child(Segment::Index(index))
    }

    pub(super) fn child(&self, segment: Segment) -> Path {
        Path([&self.0[..], &[segment]].concat())
    }

    pub(super) fn parent(&self) -> Option<Path> {
        self.0.split_last().map(|(_, parent)| Path(parent.to_vec()))
    }

    pub(super) fn starts_with(&self, prefix: &Path) -> bool {
        self.0.starts_with(&prefix.0)
    }
}

fn read_key(text: &str) -> Result<(String, &str), String> {
    let text = text.trim_start();
    match text.chars().next() {
        Some(quote @ ('"' | '\'')) => read_quoted(&text[1..], quote),
        _ => {
            let end = text.find(['.', '[', ']', '=', '"', '\'']);
            let end = end.unwrap_or(text.len());
            let key = text[..end].trim_end();
            if key.is_empty() {
                return Err("a key is missing in the path".to_owned());
            }
            Ok((key.to_owned(), &text[end..]))
        }
    }
}

/// Reads the rest of a quoted key; escapes only mean something between double quotes.
fn read_quoted(text: &str, quote: char) -> Result<(String, &str), String> {
    let mut key = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' if quote == '"' => match chars.next() {
                Some((_, 'n')) => key.push('\n'),
                Some((_, 'r')) => key.push('\r'),
                Some((_, 't')) => key.push('\t'),
                Some((_, other)) => key.push(other),
                None => break,
            },
            c if c == quote => return Ok((key, &text[at + c.len_utf8()..])),
            c => key.push(c),
        }
    }
    Err(format!("the quoted key `{text}` has no closing quote"))
}

fn read_index(text: &str) -> Result<(usize, &str), String> {
    let parts = text.split_once(']');
    let (digits, rest) = parts.ok_or_else(|| format!("`[{text}` has no closing bracket"))?;
    let index = digits.trim().parse().map_err(|_| {
        format!("`[{digits}]` is not an index; an index is a whole number from 0, such as `[2]`")
    })?;
    Ok((index, rest))
}

impl From<&Path> for String {
    fn from(path: &Path) -> String {
        path.to_string()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key(key) => {
                    if at > 0 {
                        f.write_str(".")?;
                    }
                    f.write_str(&quoted_if_needed(key))?;
                }
            }
        }
        Ok(())
    }
}

/// The key as it would be written in the file.
pub(super) fn quoted_if_needed(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.is_empty() && key.chars().all(bare) {
        return key.to_owned();
    }
    let mut text = String::from("\"");
    for c in key.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c => text.push(c),
        }
    }
    text.push('"');
    text
}
