//! Files that appear under their name only when they are whole.

use std::io;
use std::path::{Path, PathBuf};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

/// A file in the making; it is removed when nobody has it any more and it was not published.
#[pyclass]
pub struct WholeFile {
    file: Option<cxlab_files::WholeFile>,
    destination: PathBuf,
}

/// What a file system says of a path.
fn error(path: &Path, error: &io::Error) -> PyErr {
    match error.raw_os_error() {
        Some(code) => {
            let text = error.to_string();
            let text = text
                .split(" (os error")
                .next()
                .unwrap_or_default()
                .to_owned();
            PyOSError::new_err((code, text, path.to_owned()))
        }
        None => PyOSError::new_err(format!("{}: {error}", path.display())),
    }
}

/// Removes files in the making that processes have left in a folder when they were killed.
#[pyfunction]
pub fn sweep(folder: PathBuf) -> PyResult<()> {
    cxlab_files::sweep(&folder).map_err(|found| error(&folder, &found))
}

#[pymethods]
impl WholeFile {
    #[new]
    fn new(destination: PathBuf) -> PyResult<WholeFile> {
        let file = cxlab_files::WholeFile::create(&destination);
        Ok(WholeFile {
            file: Some(file.map_err(|found| error(&destination, &found))?),
            destination,
        })
    }

    /// Where it is until it is published; None afterwards.
    #[getter]
    fn path(&self) -> Option<PathBuf> {
        self.file.as_ref().map(|file| file.path().to_owned())
    }

    /// Gives it its name when it is on disk.
    fn publish(&mut self, py: Python<'_>) -> PyResult<()> {
        let file = self.file.take();
        py.detach(|| file.map_or(Ok(()), cxlab_files::WholeFile::publish))
            .map_err(|found| error(&self.destination, &found))
    }

    /// Removes it, if it was not published.
    fn discard(&mut self) {
        self.file = None;
    }
}

/// A folder of results that nobody else writes to while this exists.
#[pyclass]
pub struct ResultFolder {
    folder: Option<cxlab_files::Folder>,
}

#[pymethods]
impl ResultFolder {
    /// Opens it; files of these names in it must be results.
    #[new]
    fn new(path: PathBuf, names: Vec<String>) -> PyResult<ResultFolder> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let folder = cxlab_system::output::open_results(&path, &names);
        Ok(ResultFolder {
            folder: Some(folder.map_err(|found| error(&path, &found))?),
        })
    }

    /// Gives new files their names at once, and removes others of these names.
    fn replace(
        &self,
        py: Python<'_>,
        files: Vec<PyRefMut<'_, WholeFile>>,
        names: Vec<String>,
    ) -> PyResult<()> {
        let files = files.into_iter().filter_map(|mut file| file.file.take());
        let files: Vec<_> = files.collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        if let Some(folder) = &self.folder {
            py.detach(|| folder.replace(files, &names))
                .map_err(|found| error(folder.path(), &found))?;
        }
        Ok(())
    }

    /// Others may write to it from now on.
    fn close(&mut self) {
        self.folder = None;
    }
}
