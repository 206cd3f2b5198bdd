//! The request log: a Parquet file with one row for each completed request.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cxlab_host::{RequestRow, STAGE_NAMES};
use cxlab_system::output::temporary;
use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::data_type::{BoolType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

/// A row of columns: how a value is taken from a row.
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
];

/// Rows that make a row group.
const GROUP: usize = 1 << 17;

/// Writes rows to a temporary name, and gives the file its name when it is whole.
pub(super) struct RequestLog {
    path: PathBuf,
    writer: Option<SerializedFileWriter<File>>,
    columns: Vec<(String, Column)>,
    rows: Vec<RequestRow>,
}

impl RequestLog {
    pub(super) fn create(path: &Path) -> io::Result<RequestLog> {
        let mut columns: Vec<(String, Column)> = Vec::new();
        for (name, column) in COLUMNS {
            let same = match column {
                Column::Int32(get) => Column::Int32(*get),
                Column::Int64(get) => Column::Int64(*get),
                Column::Bool(get) => Column::Bool(*get),
                Column::Stage(at) => Column::Stage(*at),
            };
            columns.push(((*name).to_owned(), same));
        }
        for (at, stage) in STAGE_NAMES.iter().enumerate() {
            columns.push((format!("{stage}_ps"), Column::Stage(at)));
        }
        let file = File::create(temporary(path))?;
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
            path: path.to_owned(),
            writer: Some(writer),
            columns,
            rows: Vec::new(),
        })
    }

    /// Adds rows.
    pub(super) fn write(&mut self, mut rows: Vec<RequestRow>) -> io::Result<()> {
        self.rows.append(&mut rows);
        while self.rows.len() >= GROUP {
            let rest = self.rows.split_off(GROUP);
            let group = std::mem::replace(&mut self.rows, rest);
            self.write_group(&group).map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn write_group(&mut self, rows: &[RequestRow]) -> Result<(), ParquetError> {
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        let mut group = writer.next_row_group()?;
        for (_, column) in &self.columns {
            write_column(&mut group, column, rows)?;
        }
        group.close().map(drop)
    }

    /// Writes what is left and gives the file its name.
    pub(super) fn finish(mut self) -> io::Result<()> {
        let rows = std::mem::take(&mut self.rows);
        if !rows.is_empty() {
            self.write_group(&rows).map_err(io::Error::other)?;
        }
        if let Some(writer) = self.writer.take() {
            let file = writer.into_inner().map_err(io::Error::other)?;
            file.sync_all()?;
        }
        std::fs::rename(temporary(&self.path), &self.path)
    }
}

impl Drop for RequestLog {
    /// A log that was not finished leaves nothing behind.
    fn drop(&mut self) {
        if self.writer.is_some() {
            let _ = std::fs::remove_file(temporary(&self.path));
        }
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
    match column {
        Column::Int32(get) => {
            let values: Vec<i32> = rows.iter().map(get).collect();
            writer
                .typed::<Int32Type>()
                .write_batch(&values, None, None)?;
        }
        Column::Int64(get) => {
            let values: Vec<i64> = rows.iter().map(get).collect();
            writer
                .typed::<Int64Type>()
                .write_batch(&values, None, None)?;
        }
        Column::Bool(get) => {
            let values: Vec<bool> = rows.iter().map(get).collect();
            writer
                .typed::<BoolType>()
                .write_batch(&values, None, None)?;
        }
        Column::Stage(at) => {
            let values: Vec<i64> = rows.iter().map(|row| row.stages[*at] as i64).collect();
            writer
                .typed::<Int64Type>()
                .write_batch(&values, None, None)?;
        }
    }
    writer.close()
}
