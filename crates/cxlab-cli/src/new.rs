//! `cxlab new`: a scenario file from a template.

use std::fs::OpenOptions;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use cxlab_scenario::diagnostics::nearest;

use super::failure::Failure;
use super::templates::{Template, templates};
use super::{print, results::file_name};

/// The schema's file, beside the scenario.
const SCHEMA: &str = "cxlab.schema.json";

/// Characters of a description in the list of templates.
const WIDTH: usize = 76;

#[derive(Args)]
pub(super) struct NewArgs {
    /// The file to write; asked for on a terminal if it is not given
    file: Option<PathBuf>,
    /// The shipped scenario to begin with; asked for on a terminal if it is not given
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
}

/// Writes a new scenario file, and the schema beside it if none is there.
pub(super) fn new(args: &NewArgs) -> Result<(), Failure> {
    let template = match &args.template {
        Some(name) => named(name)?,
        None => ask_for_template()?,
    };
    let path = match &args.file {
        Some(path) => path.clone(),
        None => ask_for_file(&template)?,
    };
    if path.extension().is_none_or(|extension| extension != "toml") {
        return Err(Failure::mistake(format!(
            "{}: found a name that does not end in .toml; allowed: the name of a scenario file",
            path.display()
        )));
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = file_name(&stem).display().to_string();
    let text = format!("#:schema ./{SCHEMA}\n{}", template.named(&name));
    if !create(&path, &text)? {
        return Err(Failure::mistake(format!(
            "{}: found a file that is there already; allowed: a new name, because nothing is overwritten",
            path.display()
        )));
    }
    let schema = path.parent().unwrap_or(Path::new("")).join(SCHEMA);
    let own = format!("{:#}\n", cxlab_scenario::schema());
    let written = create(&schema, &own)?;
    // A schema of another version stays as it is.
    let other = !written && std::fs::read_to_string(&schema).is_ok_and(|found| found != own);
    let mut names = path.display().to_string();
    if written {
        names += &format!(", {} (for editors)", schema.display());
    }
    print(&format!("written: {names}\n"))?;
    if other {
        print(&format!(
            "note: {} stays as it is and differs from what `cxlab schema` prints\n",
            schema.display()
        ))?;
    }
    print(&format!("next: cxlab run {}\n", path.display()))
}

/// Creates a file. Returns false if it exists.
fn create(path: &Path, text: &str) -> Result<bool, Failure> {
    let failed =
        |error| Failure::Output(format!("{}: cannot be written to: {error}", path.display()));
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    match file {
        Ok(mut file) => file
            .write_all(text.as_bytes())
            .map_err(failed)
            .map(|()| true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(failed(error)),
    }
}

/// The template with this name.
fn named(name: &str) -> Result<Template, Failure> {
    if let Some(template) = templates().find(|template| template.name == name) {
        return Ok(template);
    }
    let hint = nearest(name, templates().map(|template| template.name))
        .map(|near| format!("; did you mean `{near}`?"))
        .unwrap_or_default();
    Err(Failure::mistake(format!(
        "--template: found `{name}`; allowed: {}{hint}",
        all_names()
    )))
}

fn all_names() -> String {
    let names: Vec<&str> = templates().map(|template| template.name).collect();
    names.join(", ")
}

/// Asks which template, by number or name.
fn ask_for_template() -> Result<Template, Failure> {
    expect_terminal("--template NAME")?;
    let mut text = "Templates:\n".to_owned();
    for (number, template) in templates().enumerate() {
        let short: String = template.description().chars().take(WIDTH).collect();
        let more = if short.len() < template.description().len() {
            "..."
        } else {
            ""
        };
        text += &format!("  {:>2}  {:<18} {short}{more}\n", number + 1, template.name);
    }
    print(&text)?;
    loop {
        let answer = ask("Number or name [direct]: ")?;
        let found = match answer.parse::<usize>() {
            Ok(number) => number.checked_sub(1).and_then(|at| templates().nth(at)),
            Err(_) if answer.is_empty() => return named("direct"),
            Err(_) => templates().find(|template| template.name == answer),
        };
        match found {
            Some(template) => return Ok(template),
            None => print(&format!("There is no template {answer}.\n"))?,
        }
    }
}

/// Asks for the file's name.
fn ask_for_file(template: &Template) -> Result<PathBuf, Failure> {
    expect_terminal("FILE")?;
    let default = format!("{}.toml", template.name);
    let answer = ask(&format!("File [{default}]: "))?;
    Ok(PathBuf::from(if answer.is_empty() {
        default
    } else {
        answer
    }))
}

/// Fails if standard input is no terminal, so that no question can be asked.
fn expect_terminal(argument: &str) -> Result<(), Failure> {
    match std::io::stdin().is_terminal() {
        true => Ok(()),
        false => Err(Failure::mistake(format!(
            "cxlab new: found no {argument} and no terminal to ask on; allowed: \
             cxlab new --template NAME FILE, with one of the names {}",
            all_names()
        ))),
    }
}

/// Asks a question; the end of the input is an interrupt.
fn ask(question: &str) -> Result<String, Failure> {
    print(question)?;
    let mut answer = String::new();
    match std::io::stdin().read_line(&mut answer) {
        Ok(0) => Err(Failure::Interrupted(
            "\ninterrupted: nothing is written".to_owned(),
        )),
        Ok(_) => Ok(answer.trim().to_owned()),
        Err(error) => Err(Failure::mistake(format!(
            "standard input cannot be read: {error}"
        ))),
    }
}
