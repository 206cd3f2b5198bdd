//! Writes initial file systems: cpio archives as the kernel unpacks them (`newc`, see
//! the kernel's `Documentation/driver-api/early-userspace/buffer-format.rst`).
//! Several archives may follow one another.

/// An archive under construction. All its entries belong to root.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
    folders: std::collections::BTreeSet<String>,
}

const FILE: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;
const LINK: u32 = 0o120_000;
/// Longest path that the kernel accepts, in bytes.
const LONGEST: usize = 4095;

impl Archive {
    /// Adds a file at a path without a leading slash, and the folders above it. Ignores a path that
    /// is invalid (`..`, or too long).
    pub fn file(&mut self, path: &str, bytes: &[u8], executable: bool) {
        let mode = if executable { 0o755 } else { 0o644 };
        self.add(path, FILE | mode, bytes);
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) {
        self.add(path, LINK | 0o777, target.as_bytes());
    }

    /// Adds a folder, unless the archive has it already.
    pub fn folder(&mut self, path: &str) {
        if !path.is_empty() && self.folders.insert(path.to_owned()) {
            self.add(path, FOLDER | 0o755, &[]);
        }
    }

    fn add(&mut self, path: &str, mode: u32, bytes: &[u8]) {
        let plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
        if path.len() > LONGEST || !path.split('/').all(plain) {
            return;
        }
        if let Some((above, _)) = path.rsplit_once('/') {
            self.folder(above);
        }
        self.entry(path, mode, bytes);
    }

    fn entry(&mut self, path: &str, mode: u32, bytes: &[u8]) {
        self.entries += 1;
        let links = if mode & FOLDER == FOLDER { 2 } else { 1 };
        let fields = [
            self.entries,
            mode,
            0, // user
            0, // group
            links,
            0, // time
            u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            0, // device
            0,
            0, // of a device file
            0,
            path.len() as u32 + 1,
            0, // checksum
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(bytes);
        self.pad();
    }

    fn pad(&mut self) {
        while !self.bytes.len().is_multiple_of(4) {
            self.bytes.push(0);
        }
    }

    /// Ends the archive and returns its bytes.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        while !self.bytes.len().is_multiple_of(512) {
            self.bytes.push(0);
        }
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The path, mode and content of each entry of an archive.
    fn read(bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut entries = Vec::new();
        let mut at = 0;
        let aligned = |at: usize| at.next_multiple_of(4);
        loop {
            assert_eq!(&bytes[at..at + 6], b"070701");
            let field = |number: usize| {
                let text = &bytes[at + 6 + 8 * number..at + 14 + 8 * number];
                u32::from_str_radix(std::str::from_utf8(text).unwrap(), 16).unwrap()
            };
            let (mode, size, name) = (field(1), field(6) as usize, field(11) as usize);
            let path = std::str::from_utf8(&bytes[at + 110..at + 109 + name]).unwrap();
            let from = aligned(at + 110 + name);
            if path == "TRAILER!!!" {
                return entries;
            }
            entries.push((path.to_owned(), mode, bytes[from..from + size].to_vec()));
            at = aligned(from + size);
        }
    }

    #[test]
    fn what_goes_in_comes_out_with_the_folders_above() {
        let mut archive = Archive::default();
        archive.file("usr/bin/tool", b"12345", true);
        archive.link("bin/sh", "busybox");
        archive.file("usr/bin/other", b"", false);
        let entries = read(&archive.finish());
        let names: Vec<(&str, u32)> = entries.iter().map(|one| (one.0.as_str(), one.1)).collect();
        assert_eq!(
            names,
            [
                ("usr", 0o040_755),
                ("usr/bin", 0o040_755),
                ("usr/bin/tool", 0o100_755),
                ("bin", 0o040_755),
                ("bin/sh", 0o120_777),
                ("usr/bin/other", 0o100_644),
            ]
        );
        assert_eq!(entries[2].2, b"12345");
        assert_eq!(entries[4].2, b"busybox");
    }

    #[test]
    fn paths_that_lead_elsewhere_are_left_out() {
        let mut archive = Archive::default();
        for path in ["../etc/passwd", "/etc/passwd", "a//b", "a/./b", ""] {
            archive.file(path, b"x", false);
        }
        assert_eq!(read(&archive.finish()), []);
    }

    #[test]
    fn the_length_is_whole_blocks_so_that_another_archive_may_follow() {
        let mut archive = Archive::default();
        archive.file("a", &[1; 777], false);
        assert!(archive.finish().len().is_multiple_of(512));
    }
}
