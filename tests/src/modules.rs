//! The imports between the modules of a crate, read from its source.
//!
//! A path counts if it begins with `crate`, `super` or `self`, in a `use` or elsewhere. A name that the root of the
//! crate re-exports counts as an import of its module. Modules under `#[cfg(test)]` do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The path of a module below the root of its crate.
type Module = Vec<String>;

/// The modules of a crate and what they import.
#[derive(Default)]
pub struct Modules {
    /// By module: the paths that it imports, below the root of the crate.
    imports: BTreeMap<Module, BTreeSet<Module>>,
}

/// A name in the source, or a sign.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Token {
    Name(String),
    Sign(char),
}

impl Modules {
    /// Reads all files below a `src` folder.
    ///
    /// # Panics
    /// If a file cannot be read.
    pub fn read(src: &Path) -> Modules {
        let mut files = Vec::new();
        list(src, &[], &mut files);
        let mut modules = Modules::default();
        let (mut tests, mut renamed) = (BTreeSet::new(), BTreeMap::new());
        for (module, text) in &files {
            let (tokens, hidden) = without_tests(&tokens(text));
            tests.extend(hidden.into_iter().map(|name| below(module, &[name])));
            let (uses, paths) = paths(&tokens);
            if module.is_empty() {
                let exported = uses.iter().filter(|path| path.len() > 1);
                renamed.extend(
                    exported.filter_map(|path| Some((path.last()?.clone(), path[0].clone()))),
                );
            }
            let all = uses.into_iter().chain(paths);
            let imports = all.filter_map(|path| absolute(module, &path)).collect();
            modules.imports.insert(module.clone(), imports);
        }
        let known: BTreeSet<Module> = modules.imports.keys().cloned().collect();
        let is_test = |module: &Module| tests.iter().any(|test| module.starts_with(test));
        modules.imports.retain(|module, _| !is_test(module));
        for imports in modules.imports.values_mut() {
            let named = |path: &Module| match path.first() {
                Some(first) if !known.contains(&path[..1]) => {
                    renamed.get(first).map(|at| vec![at.clone()])
                }
                _ => None,
            };
            *imports = imports
                .iter()
                .map(|path| named(path).unwrap_or_else(|| path.clone()))
                .collect();
        }
        modules
    }

    /// The modules in which others are.
    fn folders(&self) -> BTreeSet<Module> {
        let parents = self.imports.keys().filter_map(|module| module.split_last());
        parents.map(|(_, parent)| parent.to_vec()).collect()
    }

    /// Which children of a module import which other ones.
    fn between_children(&self, parent: &[String]) -> BTreeMap<&str, BTreeSet<&str>> {
        let at = parent.len();
        let mut graph: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let own = self
            .imports
            .iter()
            .filter(|(module, _)| module.starts_with(parent) && module.len() > at);
        for (module, _) in own.clone() {
            graph.entry(&module[at]).or_default();
        }
        for (module, imports) in own {
            let others = imports
                .iter()
                .filter(|path| path.starts_with(parent) && path.len() > at);
            for other in others.map(|path| path[at].as_str()) {
                if other != module[at]
                    && self
                        .imports
                        .contains_key(&below(parent, &[other.to_owned()]))
                {
                    graph.entry(&module[at]).or_default().insert(other);
                }
            }
        }
        graph
    }

    /// The largest sets of modules at the root of the crate that import each other in a circle, each in order.
    pub fn circles(&self) -> Vec<Vec<String>> {
        let graph = self.between_children(&[]);
        let reached: BTreeMap<&str, BTreeSet<&str>> = graph
            .keys()
            .map(|from| (*from, reached(&graph, from)))
            .collect();
        let mut circles: BTreeSet<Vec<String>> = BTreeSet::new();
        for (from, to) in &reached {
            let circle = to.iter().filter(|other| reached[*other].contains(from));
            let circle: Vec<String> = circle.map(|name| (*name).to_owned()).collect();
            if circle.len() > 1 {
                circles.insert(circle);
            }
        }
        circles.into_iter().collect()
    }

    /// The pairs of folders in one folder that import each other.
    pub fn mutual_folders(&self) -> Vec<(String, String)> {
        let folders = self.folders();
        let mut pairs = Vec::new();
        for parent in &folders {
            let graph = self.between_children(parent);
            let is_folder = |name: &str| folders.contains(&below(parent, &[name.to_owned()]));
            for (from, to) in &graph {
                let mutual = to
                    .iter()
                    .filter(|other| from < *other && graph[*other].contains(from));
                for other in mutual.filter(|other| is_folder(from) && is_folder(other)) {
                    let name = |name: &str| below(parent, &[name.to_owned()]).join("::");
                    pairs.push((name(from), name(other)));
                }
            }
        }
        pairs
    }
}

/// What can be reached from a module.
fn reached<'a>(graph: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &str) -> BTreeSet<&'a str> {
    let mut found: BTreeSet<&str> = BTreeSet::new();
    let mut left: Vec<&str> = graph[from].iter().copied().collect();
    while let Some(name) = left.pop() {
        if found.insert(name) {
            left.extend(&graph[name]);
        }
    }
    found
}

fn below(module: &[String], rest: &[String]) -> Module {
    [module, rest].concat()
}

/// The files below a folder, with the module that each is.
fn list(folder: &Path, module: &[String], files: &mut Vec<(Module, String)>) {
    let entries = std::fs::read_dir(folder).expect("a folder");
    for entry in entries.map(|entry| entry.expect("an entry").path()) {
        let stem = entry
            .file_stem()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let name = stem.to_owned();
        if entry.is_dir() {
            list(&entry, &below(module, &[name]), files);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            let module = match stem {
                "lib" | "main" | "mod" => module.to_vec(),
                _ => below(module, &[name]),
            };
            files.push((module, std::fs::read_to_string(&entry).expect("text")));
        }
    }
}

/// The names and signs of a source, without comments and literals.
fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if first == '"' {
            string(rest)
        } else if first == '\'' {
            character(rest)
        } else if first.is_alphanumeric() || first == '_' {
            let end = |c: char| !c.is_alphanumeric() && c != '_';
            let length = rest.find(end).unwrap_or(rest.len());
            let name = &rest[..length];
            match raw(rest, name) {
                Some(length) => length,
                None => {
                    tokens.push(Token::Name(name.to_owned()));
                    length
                }
            }
        } else {
            if !first.is_whitespace() {
                tokens.push(Token::Sign(first));
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

/// The length of a string literal.
fn string(text: &str) -> usize {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// The length of a character literal, or of the sign that begins a lifetime.
fn character(text: &str) -> usize {
    let mut inside = text.chars().skip(1);
    match (inside.next(), inside.next()) {
        (Some('\\'), _) => text[3..].find('\'').map_or(text.len(), |end| end + 4),
        (Some(one), Some('\'')) => one.len_utf8() + 2,
        _ => 1,
    }
}

/// The length of a raw string literal that begins with a name such as `r` or `br`.
fn raw(text: &str, name: &str) -> Option<usize> {
    if !matches!(name, "r" | "br" | "cr") {
        return None;
    }
    let after = &text[name.len()..];
    let signs = after.len() - after.trim_start_matches('#').len();
    let inside = after[signs..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(signs));
    let begin = name.len() + signs + 1;
    Some(
        inside
            .find(&end)
            .map_or(text.len(), |at| begin + at + end.len()),
    )
}

/// The tokens without the items under `#[cfg(test)]`, and the names of the modules among these.
fn without_tests(tokens: &[Token]) -> (Vec<Token>, Vec<String>) {
    let sign = |c: char| Token::Sign(c);
    let name = |name: &str| Token::Name(name.to_owned());
    let attribute = [
        sign('#'),
        sign('['),
        name("cfg"),
        sign('('),
        name("test"),
        sign(')'),
        sign(']'),
    ];
    let (mut left, mut hidden) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        if !tokens[at..].starts_with(&attribute) {
            left.push(tokens[at].clone());
            at += 1;
            continue;
        }
        at += attribute.len();
        let mut depth = 0;
        if let [Token::Name(word), Token::Name(module), ..] = &tokens[at..]
            && word == "mod"
        {
            hidden.push(module.clone());
        }
        while at < tokens.len() {
            depth += match tokens[at] {
                Token::Sign('{') => 1,
                Token::Sign('}') => -1,
                _ => 0,
            };
            let ends = matches!(tokens[at], Token::Sign(';' | '}')) && depth == 0;
            at += 1;
            if ends {
                break;
            }
        }
    }
    (left, hidden)
}

/// The paths in `use` items, and those elsewhere that begin with `crate`, `super` or `self`.
fn paths(tokens: &[Token]) -> (Vec<Module>, Vec<Module>) {
    let (mut uses, mut others) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        let Token::Name(name) = &tokens[at] else {
            at += 1;
            continue;
        };
        at += 1;
        match name.as_str() {
            "use" => at = tree(tokens, at, &[], &mut uses),
            "crate" | "super" | "self" => {
                let mut path = vec![name.clone()];
                while let [Token::Sign(':'), Token::Sign(':'), Token::Name(next), ..] =
                    &tokens[at..]
                {
                    path.push(next.clone());
                    at += 3;
                }
                others.push(path);
            }
            _ => {}
        }
    }
    (uses, others)
}

/// Reads a tree of imports from a place on, up to the sign that ends it; returns the place behind it.
fn tree(tokens: &[Token], mut at: usize, prefix: &[String], found: &mut Vec<Module>) -> usize {
    let mut path = prefix.to_vec();
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token {
            Token::Name(name) if name == "as" => at += 1,
            Token::Name(name) => path.push(name.clone()),
            Token::Sign('{') => {
                while tokens.get(at - 1) != Some(&Token::Sign('}')) && at < tokens.len() {
                    at = tree(tokens, at, &path, found);
                }
                path.truncate(prefix.len());
            }
            Token::Sign(',' | '}' | ';') => break,
            Token::Sign(_) => {}
        }
    }
    if path.len() > prefix.len() {
        found.push(path);
    }
    at
}

/// The path below the root of the crate of a path in a module.
fn absolute(module: &[String], path: &[String]) -> Option<Module> {
    let ups = path.iter().take_while(|name| *name == "super").count();
    match path[0].as_str() {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some(below(module, &path[1..])),
        "super" => Some(below(
            &module[..module.len().checked_sub(ups)?],
            &path[ups..],
        )),
        _ => None,
    }
}
