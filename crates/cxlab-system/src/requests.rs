//! The request log: one row for each completed request, in a Parquet file or in memory.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use cxlab_files::WholeFile;
use cxlab_host::{Failure, RequestRow, STAGE_NAMES};
use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::data_type::{BoolType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{
    SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter,
};
use parquet::schema::types::Type;

/// How a column's value is taken from a row.
#[derive(Clone, Copy)]
enum Column {
    Int32(fn(&RequestRow) -> i32),
    Int64(fn(&RequestRow) -> i64),
    Bool(fn(&RequestRow) -> bool),
    Stage(usize),
}

/// The columns before the stages; times are picoseconds since the start of the run.
const COLUMNS: &[(&str, Column)] = &[
    ("host", Column::Int32(|row| i32::from(row.requester))),
    (
        "device",
        Column::Int32(|row| {
            if row.device == u16::MAX {
                -1
            } else {
                i32::from(row.device)
            }
        }),
    ),
    ("id", Column::Int64(|row| row.id as i64)),
    ("write", Column::Bool(|row| row.write)),
    ("hpa", Column::Int64(|row| row.hpa as i64)),
    ("issued_ps", Column::Int64(|row| row.issued_ps as i64)),
    ("completed_ps", Column::Int64(|row| row.completed_ps as i64)),
    ("hops", Column::Int32(|row| i32::from(row.hops))),
    ("denied", Column::Bool(|row| row.denied)),
    (
        "timed_out",
        Column::Bool(|row| row.failure == Some(Failure::TimedOut)),
    ),
    (
        "cut_off",
        Column::Bool(|row| row.failure == Some(Failure::CutOff)),
    ),
    (
        "poisoned",
        Column::Bool(|row| row.failure == Some(Failure::Poisoned)),
    ),
];

fn columns() -> Vec<(String, Column)> {
    let named = COLUMNS.iter();
    let named = named.map(|(name, column)| ((*name).to_owned(), *column));
    let stages = STAGE_NAMES.iter().enumerate();
    let stages = stages.map(|(at, stage)| (format!("{stage}_ps"), Column::Stage(at)));
    named.chain(stages).collect()
}

/// The values of one column, by row.
#[derive(Clone, PartialEq, Debug)]
pub enum Values {
    /// Small numbers; -1 stands for a missing value.
    Int32(Vec<i32>),
    /// Counts, addresses and picoseconds.
    Int64(Vec<i64>),
    /// Yes or no.
    Bool(Vec<bool>),
}

/// Rows kept in memory, by column: those of the Parquet file.
pub struct RequestColumns {
    columns: Vec<(String, Column, Values)>,
}

impl Default for RequestColumns {
    fn default() -> Self {
        let columns = columns().into_iter().map(|(name, column)| {
            let values = match column {
                Column::Int32(_) => Values::Int32(Vec::new()),
                Column::Int64(_) | Column::Stage(_) => Values::Int64(Vec::new()),
                Column::Bool(_) => Values::Bool(Vec::new()),
            };
            (name, column, values)
        });
        RequestColumns {
            columns: columns.collect(),
        }
    }
}

impl RequestColumns {
    /// Appends rows of the request log.
    pub fn push(&mut self, rows: &[RequestRow]) {
        for (_, column, values) in &mut self.columns {
            match (column, values) {
                (Column::Int32(get), Values::Int32(values)) => values.extend(rows.iter().map(*get)),
                (Column::Int64(get), Values::Int64(values)) => values.extend(rows.iter().map(*get)),
                (Column::Bool(get), Values::Bool(values)) => values.extend(rows.iter().map(*get)),
                (Column::Stage(at), Values::Int64(values)) => {
                    values.extend(rows.iter().map(|row| row.stages[*at] as i64));
                }
                _ => unreachable!("values are made for their column"),
            }
        }
    }

    /// Names and values, in the order of the file.
    pub fn into_columns(self) -> impl Iterator<Item = (String, Values)> {
        let columns = self.columns.into_iter();
        columns.map(|(name, _, values)| (name, values))
    }
}

/// Rows that make a row group.
const GROUP: usize = 1 << 17;

/// Writes rows to a temporary name, and gives the file its name when it is whole.
pub struct RequestLog {
    writer: Option<(SerializedFileWriter<File>, WholeFile)>,
    columns: Vec<(String, Column)>,
    rows: Vec<RequestRow>,
}

impl RequestLog {
    /// Begins a log at a temporary name beside `path`.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(path: &Path) -> io::Result<RequestLog> {
        let columns = columns();
        let whole = WholeFile::create(path)?;
        let file = whole.handle()?;
        let fields = columns.iter().map(|(name, column)| {
            let (physical, logical) = match column {
                Column::Int32(_) => (PhysicalType::INT32, None),
                Column::Bool(_) => (PhysicalType::BOOLEAN, None),
                Column::Int64(_) | Column::Stage(_) => {
                    let unsigned = LogicalType::integer(64, name != "hpa");
                    (PhysicalType::INT64, Some(unsigned))
                }
            };
            Type::primitive_type_builder(name, physical)
                .with_repetition(Repetition::REQUIRED)
                .with_logical_type(logical)
                .build()
                .map(Arc::new)
        });
        let fields: Result<Vec<_>, ParquetError> = fields.collect();
        let schema = fields.and_then(|fields| {
            Type::group_type_builder("request")
                .with_fields(fields)
                .build()
                .map(Arc::new)
        });
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .build();
        let writer = schema
            .and_then(|schema| SerializedFileWriter::new(file, schema, Arc::new(properties)))
            .map_err(io::Error::other)?;
        Ok(RequestLog {
            writer: Some((writer, whole)),
            columns,
            rows: Vec::new(),
        })
    }

    /// Appends rows to the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, mut rows: Vec<RequestRow>) -> io::Result<()> {
        self.rows.append(&mut rows);
        while self.rows.len() >= GROUP {
            let rest = self.rows.split_off(GROUP);
            let group = std::mem::replace(&mut self.rows, rest);
            self.write_group(&group).map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn write_group(&mut self, rows: &[RequestRow]) -> Result<(), ParquetError> {
        let Some((writer, _)) = &mut self.writer else {
            return Ok(());
        };
        let mut group = writer.next_row_group()?;
        for (_, column) in &self.columns {
            write_column(&mut group, column, rows)?;
        }
        group.close().map(drop)
    }

    /// Writes what is left, and the ID of the run as `cxlab.run` among the file's metadata; the file is whole then, and
    /// has no name yet.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(mut self, run: &str) -> io::Result<WholeFile> {
        let rows = std::mem::take(&mut self.rows);
        if !rows.is_empty() {
            self.write_group(&rows).map_err(io::Error::other)?;
        }
        let Some((mut writer, whole)) = self.writer.take() else {
            return Err(io::Error::other("the log was finished before"));
        };
        let run = KeyValue::new("cxlab.run".to_owned(), run.to_owned());
        writer.append_key_value_metadata(run);
        writer.into_inner().map_err(io::Error::other)?;
        Ok(whole)
    }
}

fn write_column(
    group: &mut SerializedRowGroupWriter<'_, File>,
    column: &Column,
    rows: &[RequestRow],
) -> Result<(), ParquetError> {
    let Some(mut writer) = group.next_column()? else {
        return Ok(());
    };
    let to = &mut writer;
    match column {
        Column::Int32(get) => put::<Int32Type>(to, rows.iter().map(get)),
        Column::Int64(get) => put::<Int64Type>(to, rows.iter().map(get)),
        Column::Bool(get) => put::<BoolType>(to, rows.iter().map(get)),
        Column::Stage(at) => put::<Int64Type>(to, rows.iter().map(|row| row.stages[*at] as i64)),
    }?;
    writer.close()
}

/// Writes all values of a column.
fn put<T: DataType>(
    writer: &mut SerializedColumnWriter<'_>,
    values: impl Iterator<Item = T::T>,
) -> Result<(), ParquetError> {
    let values: Vec<T::T> = values.collect();
    let written = writer.typed::<T>().write_batch(&values, None, None);
    written.map(drop)
}
