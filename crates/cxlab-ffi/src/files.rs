//! Files that appear under their name only when they are whole.

use std::path::PathBuf;

use pyo3::prelude::*;

/// A file in the making; it is removed when nobody has it any more and it was not published.
#[pyclass]
pub struct WholeFile {
    file: Option<cxlab_files::WholeFile>,
}

#[pymethods]
impl WholeFile {
    #[new]
    fn new(destination: PathBuf) -> PyResult<WholeFile> {
        Ok(WholeFile {
            file: Some(cxlab_files::WholeFile::create(&destination)?),
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
        py.detach(|| file.map_or(Ok(()), cxlab_files::WholeFile::publish))?;
        Ok(())
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
        Ok(ResultFolder {
            folder: Some(cxlab_system::output::open_results(&path, &names)?),
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
            py.detach(|| folder.replace(files, &names))?;
        }
        Ok(())
    }

    /// Others may write to it from now on.
    fn close(&mut self) {
        self.folder = None;
    }
}
