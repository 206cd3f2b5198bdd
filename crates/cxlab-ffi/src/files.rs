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
