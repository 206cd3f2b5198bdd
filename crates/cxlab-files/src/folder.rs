//! A folder of results that only one run writes to at a time, and whose
//! files are replaced together.
//!
//! All files of a new set are written beside the files of the old set, under temporary names, and
//! synced to disk. Then a list is written that says which files to rename and which to remove
//! ([`LIST`]). When the list has its name, the new set is valid. If a process is killed after that,
//! the next process that opens the folder completes the list.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::{WholeFile, is_ours, refuse_special, sweep, sync_folder, write_whole};

/// The name of the list of renames and removals to complete.
const LIST: &str = ".cxlab-replacing";
const FIRST_LINE: &str = "cxlab-replacing 1";
/// Most bytes of a list that are read.
const LONGEST: u64 = 1 << 20;

/// A folder of results, locked for this process.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Opens a folder, which is created if it is missing. Completes the list that a killed process
    /// has left, and removes its unfinished files.
    ///
    /// # Errors
    /// Errors of the file system, and [`io::ErrorKind::WouldBlock`] when another process
    /// has the folder open.
    pub fn open(path: &Path) -> io::Result<Folder> {
        std::fs::create_dir_all(path)?;
        let lock = File::open(path)?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let message =
                    "another cxlab is writing to it; allowed: a folder that nobody else writes to";
                return Err(io::Error::new(io::ErrorKind::WouldBlock, message));
            }
            // Some network file systems cannot lock folders.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let folder = Folder {
            path: path.to_owned(),
            _lock: lock,
        };
        folder.go_on()?;
        sweep(path)?;
        Ok(folder)
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Publishes new files together, and removes the files named in `gone`.
    ///
    /// # Errors
    /// Errors of the file system. Either the old files are still valid, or the new files are and
    /// the next process that opens the folder completes the renames.
    pub fn replace(&self, new: Vec<WholeFile>, gone: &[&str]) -> io::Result<()> {
        let mut list = format!("{FIRST_LINE}\n");
        let mut kept = Vec::new();
        for file in new {
            let pair = file.keep()?;
            // The unfinished file is in the same folder as its destination.
            if pair.1.parent() != Some(&self.path) {
                return Err(io::Error::other("a file of another folder"));
            }
            refuse_special(&pair.1)?;
            list += &format!("rename {} {}\n", name(&pair.0)?, name(&pair.1)?);
            kept.push(pair);
        }
        let names: BTreeSet<&OsStr> = kept.iter().filter_map(|(_, to)| to.file_name()).collect();
        for name in gone.iter().filter(|name| !names.contains(OsStr::new(name))) {
            list += &format!("remove {name}\n");
        }
        list += "end\n";
        let begun = write_whole(&self.path.join(LIST), list.as_bytes());
        if let Err(error) = begun {
            // Files that cannot be removed now are removed when the folder is opened next.
            kept.iter()
                .for_each(|(from, _)| drop(std::fs::remove_file(from)));
            return Err(error);
        }
        self.go_on()
    }

    /// Completes the renames and removals of the folder's list, if there is one.
    fn go_on(&self) -> io::Result<()> {
        let list = self.path.join(LIST);
        let mut text = String::new();
        match std::fs::symlink_metadata(&list) {
            Ok(found) if found.is_file() => File::open(&list)?.take(LONGEST),
            Ok(_) => return Err(unknown(&list)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        }
        .read_to_string(&mut text)?;
        for step in steps(&text).ok_or_else(|| unknown(&list))? {
            let done = match step {
                Step::Rename(from, to) => std::fs::rename(self.path.join(from), self.path.join(to)),
                Step::Remove(name) => std::fs::remove_file(self.path.join(name)),
            };
            match done {
                // The step was completed before.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                done => done?,
            }
        }
        sync_folder(&self.path)?;
        std::fs::remove_file(&list)?;
        sync_folder(&self.path)
    }
}

fn unknown(list: &Path) -> io::Error {
    let message = format!(
        "{}: found what cxlab has not written; allowed: no such file",
        list.display()
    );
    io::Error::new(io::ErrorKind::InvalidData, message)
}

fn name(path: &Path) -> io::Result<&str> {
    let name = path.file_name().and_then(OsStr::to_str);
    let name = name.filter(|name| is_plain(name));
    name.ok_or_else(|| io::Error::other(format!("`{}` is no plain name", path.display())))
}

/// Whether a name is one of a file in the folder itself, without characters that
/// a list cannot have.
fn is_plain(name: &str) -> bool {
    let odd = |letter: char| letter.is_control() || "/\\ ".contains(letter);
    !name.is_empty() && name != "." && name != ".." && !name.contains(odd)
}

enum Step<'a> {
    Rename(&'a str, &'a str),
    Remove(&'a str),
}

/// Parses the steps of a list; `None` if the text is not a list.
fn steps<'a>(text: &'a str) -> Option<Vec<Step<'a>>> {
    let mut lines = text.strip_suffix("end\n")?.lines();
    if lines.next()? != FIRST_LINE {
        return None;
    }
    let step = |line: &'a str| {
        let (kind, rest) = line.split_once(' ')?;
        match (kind, rest.split_once(' ')) {
            ("rename", Some((from, to))) => {
                let plain = is_plain(from) && is_plain(to) && is_ours(OsStr::new(from));
                plain.then_some(Step::Rename(from, to))
            }
            ("remove", None) if is_plain(rest) => Some(Step::Remove(rest)),
            _ => None,
        }
    };
    lines.map(step).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(folder: &Folder, name: &str, text: &str) -> WholeFile {
        let mut file = WholeFile::create(&folder.path().join(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    fn contents(path: &Path) -> Vec<(String, String)> {
        let entries = std::fs::read_dir(path).unwrap();
        let mut all: Vec<(String, String)> = entries
            .map(|entry| {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                (name, std::fs::read_to_string(path).unwrap())
            })
            .collect();
        all.sort();
        all
    }

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        let pair = |(name, text): &(&str, &str)| (name.to_string(), text.to_string());
        list.iter().map(pair).collect()
    }

    #[test]
    fn a_set_replaces_another_and_leaves_what_is_the_users() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(&dir.path().join("out")).unwrap();
        std::fs::write(folder.path().join("notes.txt"), "mine").unwrap();
        let first = vec![file(&folder, "a.json", "1"), file(&folder, "log", "1")];
        folder.replace(first, &[]).unwrap();
        let second = vec![file(&folder, "a.json", "2"), file(&folder, "b.svg", "2")];
        folder.replace(second, &["log", "b.svg", "none"]).unwrap();
        let expected = [("a.json", "2"), ("b.svg", "2"), ("notes.txt", "mine")];
        assert_eq!(contents(folder.path()), pairs(&expected));
    }

    #[test]
    fn a_folder_has_one_writer() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let error = Folder::open(dir.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(folder);
        Folder::open(dir.path()).unwrap();
    }

    /// However much of the work was done when the process was killed.
    #[test]
    fn what_was_begun_is_finished_and_what_was_not_is_as_it_was() {
        for done in 0..5 {
            let dir = tempfile::tempdir().unwrap();
            let old = [("a.json", "1"), ("b.svg", "1"), ("log", "1")];
            for (name, text) in old {
                std::fs::write(dir.path().join(name), text).unwrap();
            }
            let kept = |name: &str| format!(".cxlab-{name}.partial-x1");
            for name in ["a.json", "b.svg"] {
                std::fs::write(dir.path().join(kept(name)), "2").unwrap();
            }
            if done > 0 {
                let [a, b] = ["a.json", "b.svg"].map(kept);
                let list =
                    format!("{FIRST_LINE}\nrename {a} a.json\nrename {b} b.svg\nremove log\nend\n");
                std::fs::write(dir.path().join(LIST), list).unwrap();
            }
            for name in ["a.json", "b.svg"].iter().take(done.max(1) - 1) {
                std::fs::rename(dir.path().join(kept(name)), dir.path().join(name)).unwrap();
            }
            if done == 4 {
                std::fs::remove_file(dir.path().join("log")).unwrap();
            }
            drop(Folder::open(dir.path()).unwrap());
            let expected = match done {
                0 => pairs(&old),
                _ => pairs(&[("a.json", "2"), ("b.svg", "2")]),
            };
            assert_eq!(contents(dir.path()), expected, "{done} steps");
        }
    }

    #[test]
    fn a_list_reaches_no_file_outside_and_none_that_is_not_ours() {
        let ours = ".cxlab-a.partial-1";
        for line in [
            "rename ../x a",
            "rename victim a",
            &format!("rename {ours} ../a"),
            &format!("rename {ours} a b"),
            "remove ../a",
            "remove a/b",
            "remove .",
            "move a b",
            "",
        ] {
            let text = format!("{FIRST_LINE}\n{line}\nend\n");
            assert!(steps(&text).is_none(), "{line}");
        }
        let whole = format!("{FIRST_LINE}\nrename {ours} a\nremove b\nend\n");
        assert_eq!(steps(&whole).map(|steps| steps.len()), Some(2));
        for cut in 0..whole.len() {
            assert!(steps(&whole[..cut]).is_none(), "{cut} bytes of it");
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(LIST), "rm -r /").unwrap();
        let error = Folder::open(dir.path()).unwrap_err();
        assert!(error.to_string().contains("has not written"), "{error}");
    }
}
