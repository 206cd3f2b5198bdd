//! Names of places in a program's code, and of its memory.

use std::collections::BTreeMap;
use std::fs::File;

use addr2line::Loader;
use object::read::{Object as _, ObjectSymbol as _, ReadCache};

use crate::images::is_file;
use crate::recording::{CodePlace, Object, Recording, Site};

/// Files of the C and C++ libraries and the loader. An allocation in these files is named by its caller.
const LIBRARIES: [&str; 7] = [
    "libc.so",
    "libc-",
    "ld-linux",
    "libstdc++",
    "libc++",
    "libgcc_s",
    "sites-",
];

/// A function at a place, and the line of its source.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Function {
    /// Name of the function, without arguments. A place without a function is called `FILE+ADDRESS`.
    pub name: String,
    /// Path of the source file, and the line, if the program has debug information.
    pub source: Option<(String, u32)>,
}

impl Function {
    /// The source line as `FILE:LINE`, without folders.
    pub fn line(&self) -> Option<String> {
        let (path, line) = self.source.as_ref()?;
        Some(format!("{}:{line}", last_part(path)))
    }
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A variable of a file: its address, bytes and name.
type Variable = (u64, u64, String);

/// Reads names of a recording's places from the program's files.
pub struct Symbols<'a> {
    recording: &'a Recording,
    loaders: Vec<Option<Loader>>,
    variables: BTreeMap<u32, Vec<Variable>>,
    known: BTreeMap<u32, Vec<Function>>,
}

impl Symbols<'_> {
    /// Opens the files of the recording's code. Files that cannot be opened give no names.
    pub fn new(recording: &Recording) -> Symbols<'_> {
        let open = |path: &String| is_file(path).then(|| Loader::new(path).ok()).flatten();
        Symbols {
            recording,
            loaders: recording.images.iter().map(open).collect(),
            variables: BTreeMap::new(),
            known: BTreeMap::new(),
        }
    }

    /// The functions at a place: inlined functions from the innermost outwards, then the function that contains the code.
    pub fn functions(&mut self, place: u32) -> Vec<Function> {
        if let Some(known) = self.known.get(&place) {
            return known.clone();
        }
        let found = match self.recording.places.get(place as usize) {
            Some(code) => self.find(*code),
            None => vec![unnamed("unknown")],
        };
        self.known.insert(place, found.clone());
        found
    }

    fn find(&self, code: CodePlace) -> Vec<Function> {
        let Some(image) = code.image else {
            return vec![match code.address {
                0 => unnamed("unknown"),
                _ => unnamed("code without a file"),
            }];
        };
        let loader = self.loaders.get(image as usize).and_then(Option::as_ref);
        let mut found = Vec::new();
        if let Some(Ok(mut frames)) = loader.map(|loader| loader.find_frames(code.address)) {
            while let Ok(Some(frame)) = frames.next() {
                let Some(function) = frame.function else {
                    continue;
                };
                let Ok(name) = function.demangle() else {
                    continue;
                };
                let source = frame
                    .location
                    .and_then(|at| Some((at.file?.to_owned(), at.line?)));
                found.push(Function {
                    name: short(&name),
                    source,
                });
            }
        }
        if found.is_empty() {
            let symbol = loader.and_then(|loader| loader.find_symbol(code.address));
            let name = symbol.map(|name| short(&addr2line::demangle_auto(name.into(), None)));
            found.push(unnamed(&name.unwrap_or_else(|| {
                format!("{}+{:#x}", self.file(image), code.address)
            })));
        }
        found
    }

    fn file(&self, image: u32) -> &str {
        let path = self.recording.images.get(image as usize);
        path.map_or("unknown", |path| last_part(path))
    }

    /// The calls of a list, innermost first, each with the functions inlined into it.
    pub fn calls(&mut self, stack: u32) -> Vec<Function> {
        let recording = self.recording;
        let places = recording.stacks.get(stack as usize);
        let places = places.into_iter().flatten();
        places.flat_map(|place| self.functions(*place)).collect()
    }

    /// The name of an object, and its size in bytes where it is known.
    pub fn object(&mut self, object: u32) -> (String, Option<u64>) {
        let recording = self.recording;
        match recording.objects.get(object as usize) {
            Some(Object::Allocated(stack)) => {
                let site: Option<&Site> = recording.sites.iter().find(|site| site.stack == *stack);
                (self.allocation(*stack), site.map(|site| site.most_bytes))
            }
            Some(Object::Static(place)) => self.variable(*place),
            Some(Object::Mapping(name, bytes)) => match name.as_str() {
                "anonymous" => ("memory without a file".to_owned(), Some(*bytes)),
                name => (name.to_owned(), Some(*bytes)),
            },
            Some(Object::Unknown) | None => ("unknown".to_owned(), None),
        }
    }

    /// Name of an allocation: its innermost calls outside of libraries and wrappers.
    fn allocation(&mut self, stack: u32) -> String {
        let recording = self.recording;
        let places = recording
            .stacks
            .get(stack as usize)
            .cloned()
            .unwrap_or_default();
        let is_library = |place: &u32| {
            let code = recording.places.get(*place as usize);
            let file = code
                .and_then(|code| code.image)
                .map(|image| self.file(image));
            file.is_some_and(|file| LIBRARIES.iter().any(|name| file.starts_with(name)))
        };
        let (_, own): (Vec<u32>, Vec<u32>) = places.iter().copied().partition(is_library);
        let own = if own.is_empty() { places } else { own };
        let calls = own.into_iter().flat_map(|place| self.functions(place));
        let calls: Vec<Function> = calls.collect();
        let first = calls.iter().position(|call| !is_wrapper(&call.name));
        let Some((first, behind)) = calls[first.unwrap_or(0)..].split_first() else {
            return "allocated, by unknown calls".to_owned();
        };
        let line = first
            .line()
            .map_or_else(String::new, |line| format!(" ({line})"));
        let behind = behind
            .iter()
            .take(2)
            .map(|call| format!(" < {}", call.name));
        format!(
            "allocated for {}{line}{}",
            first.name,
            behind.collect::<String>()
        )
    }

    fn variable(&mut self, place: CodePlace) -> (String, Option<u64>) {
        let Some(image) = place.image else {
            return ("unknown".to_owned(), None);
        };
        let file = self.file(image).to_owned();
        let path = self.recording.images.get(image as usize);
        let variables = self
            .variables
            .entry(image)
            .or_insert_with(|| path.and_then(|path| variables(path)).unwrap_or_default());
        let behind = variables.partition_point(|(address, ..)| *address <= place.address);
        let found = behind.checked_sub(1).map(|at| &variables[at]);
        match found.filter(|(address, bytes, _)| place.address < address + bytes) {
            Some((_, bytes, name)) => (format!("variable {name} of {file}"), Some(*bytes)),
            None => (format!("variables of {file}"), None),
        }
    }
}

/// Whether a function only passes on an allocation, by its name: a program's own `malloc`, or containers of a library.
fn is_wrapper(name: &str) -> bool {
    let name = name.trim_start_matches('<').to_ascii_lowercase();
    let libraries = ["operator new", "std::", "core::", "alloc::", "__gnu_cxx::"];
    name.contains("alloc") || libraries.iter().any(|library| name.starts_with(library))
}

fn unnamed(name: &str) -> Function {
    Function {
        name: name.to_owned(),
        source: None,
    }
}

/// A name without the hash that Rust appends.
fn short(name: &str) -> String {
    let is_hash =
        |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let hashed = name.rsplit_once("::h").filter(|(_, hash)| is_hash(hash));
    hashed.map_or(name, |(name, _)| name).to_owned()
}

/// Variables of a file, by address.
fn variables(path: &str) -> Option<Vec<Variable>> {
    if !is_file(path) {
        return None;
    }
    let cache = ReadCache::new(File::open(path).ok()?);
    let file = object::File::parse(&cache).ok()?;
    let mut all: Vec<Variable> = file
        .symbols()
        .chain(file.dynamic_symbols())
        .filter(|symbol| symbol.kind() == object::SymbolKind::Data && symbol.size() > 0)
        .filter_map(|symbol| {
            let name = addr2line::demangle_auto(symbol.name().ok()?.into(), None);
            Some((symbol.address(), symbol.size(), short(&name)))
        })
        .collect();
    all.sort_unstable();
    all.dedup_by_key(|(address, ..)| *address);
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps;
    use crate::recorder::Recorder;
    use crate::sys;

    static VARIABLE_OF_A_TEST: [u64; 32] = [7; 32];

    /// This test finds its own function, line and variable.
    #[test]
    fn code_and_variables_of_this_program_have_names() {
        let own = sys::own();
        let mut recorder = Recorder::new(None);
        let here = code_and_variables_of_this_program_have_names as *const () as u64;
        let place = recorder.place_of_test(own, here);
        let variable = recorder.object_of_test(own, VARIABLE_OF_A_TEST.as_ptr() as u64 + 40);
        let stack = Box::new(7u64);
        let heap = recorder.object_of_test(own, &raw const *stack as u64);
        let recording = recorder.finish(crate::model::Overlap::default(), 0.0, Vec::new());
        let mut symbols = Symbols::new(&recording);
        let functions = symbols.functions(place);
        let last = functions.last().unwrap();
        assert!(
            last.name
                .ends_with("code_and_variables_of_this_program_have_names"),
            "{functions:?}"
        );
        assert!(
            last.line()
                .is_some_and(|line| line.starts_with("symbols.rs:")),
            "{functions:?}"
        );
        let (name, bytes) = symbols.object(variable);
        assert!(
            name.contains("VARIABLE_OF_A_TEST") || bytes.is_none(),
            "{name}"
        );
        assert_ne!(symbols.object(heap).0, "unknown");
        assert!(maps::mappings(own).is_ok());
    }

    #[test]
    fn what_passes_an_allocation_on_is_no_place() {
        for name in [
            "sqlite3MemMalloc",
            "xrealloc",
            "operator new(unsigned long)",
            "std::vector<int>::reserve",
            "<alloc::vec::Vec<T> as X>::from",
        ] {
            assert!(is_wrapper(name), "{name}");
        }
        for name in ["main", "pcache1FetchStage2", "newNode"] {
            assert!(!is_wrapper(name), "{name}");
        }
    }

    #[test]
    fn hashes_are_left_out_of_names() {
        assert_eq!(short("a::b::h0123456789abcdef"), "a::b");
        assert_eq!(short("a::b::hello"), "a::b::hello");
        assert_eq!(short("malloc"), "malloc");
    }
}
