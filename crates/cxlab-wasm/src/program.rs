//! Programs: modules that were checked and rewritten.

use std::fmt;
use std::sync::Arc;

use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{
    CodeSection, ConstExpr, EntityType, ExportKind, ExportSection, FunctionSection, GlobalSection,
    GlobalType, ImportSection, Module, TypeSection, ValType,
};
use wasmparser::{
    CompositeInnerType, Data, DataKind, ExternalKind, FunctionBody, Import, Operator, Parser,
    Payload, TypeRef, Validator, WasmFeatures,
};

use crate::private::{NULL_BYTES, PrivateImage};
use crate::rewrite::{self, Access, Layout};

/// Bytes of a page of a module's memory.
const PAGE: u64 = 64 << 10;

/// Most bytes of a program's private memory: 1 MiB.
const MOST_PRIVATE: u64 = 1 << 20;

/// Name under which the rewritten module exports its counter of cycles.
pub(crate) const CYCLES: &str = "cxlab.cycles";

/// The module of functions that a program may import.
pub(crate) const IMPORTS: &str = "cxlab";

/// The type of a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueType {
    /// An integer of 32 bits, or a smaller one.
    I32,
    /// An integer of 64 bits, or a pointer.
    I64,
    /// `float`.
    F32,
    /// `double`.
    F64,
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ValueType::I32 => "i32",
            ValueType::I64 => "i64",
            ValueType::F32 => "f32",
            ValueType::F64 => "f64",
        })
    }
}

/// A function that a program exports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// Its name in the C source.
    pub name: String,
    /// Types of its parameters, in order.
    pub parameters: Vec<ValueType>,
    /// Whether it returns nothing, as a kernel must.
    pub is_void: bool,
}

/// A module of compiled functions.
pub struct Program {
    pub(crate) module: wasmi::Module,
    pub(crate) image: Arc<PrivateImage>,
    functions: Vec<Function>,
}

impl Program {
    /// Checks and rewrites a module in WebAssembly's binary format.
    ///
    /// # Errors
    /// The module is invalid, or has something that is not supported: the message says what was found
    /// and what is allowed.
    pub fn new(bytes: &[u8]) -> Result<Program, String> {
        let features = WasmFeatures::WASM1
            | WasmFeatures::SIGN_EXTENSION
            | WasmFeatures::SATURATING_FLOAT_TO_INT
            | WasmFeatures::BULK_MEMORY
            | WasmFeatures::THREADS
            | WasmFeatures::MEMORY64;
        Validator::new_with_features(features)
            .validate_all(bytes)
            .map_err(|error| format!("found no module that is supported: {error}"))?;
        let parts = Parts::read(bytes).map_err(|error| error.to_string())?;
        let rewritten = parts.write()?;
        let mut config = wasmi::Config::default();
        config.consume_fuel(true);
        let engine = wasmi::Engine::new(&config);
        let module = wasmi::Module::new(&engine, &rewritten)
            .map_err(|error| format!("found no module that is supported: {error}"))?;
        Ok(Program {
            module,
            image: Arc::new(parts.image()?),
            functions: parts.functions,
        })
    }

    /// The functions that the program exports.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// Bytes of private memory of each call.
    pub fn private_bytes(&self) -> u64 {
        self.image.bytes()
    }
}

/// A function type: parameters and results.
type Signature = (Vec<ValType>, Vec<ValType>);

/// Why a module cannot be read.
type ReadError = Box<dyn std::error::Error>;

/// What a module consists of.
#[derive(Default)]
struct Parts<'a> {
    types: Vec<Signature>,
    /// Imported functions: name and type.
    imports: Vec<(&'a str, u32)>,
    /// Types of the module's own functions.
    declared: Vec<u32>,
    globals: Vec<(GlobalType, ConstExpr)>,
    /// Exported functions: name and number.
    exports: Vec<(&'a str, u32)>,
    bodies: Vec<FunctionBody<'a>>,
    data: Vec<(u64, &'a [u8])>,
    pages: u64,
    functions: Vec<Function>,
}

impl<'a> Parts<'a> {
    fn read(bytes: &'a [u8]) -> Result<Parts<'a>, ReadError> {
        let mut parts = Parts::default();
        for payload in Parser::new(0).parse_all(bytes) {
            parts.payload(payload?)?;
        }
        for (name, index) in &parts.exports {
            let own = (*index as usize).checked_sub(parts.imports.len());
            let Some((parameters, results)) = own
                .and_then(|own| parts.declared.get(own))
                .and_then(|ty| parts.types.get(*ty as usize))
            else {
                continue;
            };
            let parameters = parameters.iter().copied();
            parts.functions.push(Function {
                name: (*name).to_owned(),
                parameters: parameters.filter_map(value_type).collect(),
                is_void: results.is_empty(),
            });
        }
        Ok(parts)
    }

    fn payload(&mut self, payload: Payload<'a>) -> Result<(), ReadError> {
        match payload {
            Payload::TypeSection(section) => {
                for group in section {
                    for ty in group?.types() {
                        let CompositeInnerType::Func(ty) = &ty.composite_type.inner else {
                            return Err("found a type that is no function's".into());
                        };
                        self.types.push((plain(ty.params())?, plain(ty.results())?));
                    }
                }
            }
            Payload::ImportSection(section) => {
                for import in section {
                    self.import(&import?)?;
                }
            }
            Payload::FunctionSection(section) => {
                for ty in section {
                    self.declared.push(ty?);
                }
            }
            Payload::MemorySection(section) => {
                for memory in section {
                    let memory = memory?;
                    if !memory.memory64 {
                        return Err(
                            "found a module with pointers of 32 bits; allowed: wasm64".into()
                        );
                    }
                    self.pages = memory.initial;
                }
            }
            Payload::GlobalSection(section) => {
                for global in section {
                    let global = global?;
                    let ty = RoundtripReencoder.global_type(global.ty)?;
                    let init = RoundtripReencoder.const_expr(global.init_expr)?;
                    self.globals.push((ty, init));
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    let export = export?;
                    if export.kind == ExternalKind::Func {
                        self.exports.push((export.name, export.index));
                    }
                }
            }
            Payload::DataSection(section) => {
                for data in section {
                    self.data(data?)?;
                }
            }
            Payload::CodeSectionEntry(body) => self.bodies.push(body),
            Payload::TableSection(section) if section.count() > 0 => {
                for table in section {
                    if table?.ty.initial > 1 {
                        return Err("found a table of functions; allowed: direct calls".into());
                    }
                }
            }
            Payload::StartSection { .. } => {
                return Err("found a start function; allowed: none".into());
            }
            _ => {}
        }
        Ok(())
    }

    fn import(&mut self, import: &Import<'a>) -> Result<(), ReadError> {
        match import.ty {
            TypeRef::Func(ty) if import.module == IMPORTS => {
                self.imports.push((import.name, ty));
                Ok(())
            }
            _ => Err(format!(
                "found `{}` of `{}`, which is not defined; allowed: functions of cxlab_kernel.h",
                import.name, import.module
            )
            .into()),
        }
    }

    fn data(&mut self, data: Data<'a>) -> Result<(), ReadError> {
        let DataKind::Active { offset_expr, .. } = data.kind else {
            return Err("found passive data; allowed: active".into());
        };
        let Operator::I64Const { value } = offset_expr.get_operators_reader().read()? else {
            return Err("found data at a computed address".into());
        };
        self.data.push((value as u64, data.data));
        Ok(())
    }

    /// The rewritten module.
    fn write(&self) -> Result<Vec<u8>, String> {
        let layout = Layout {
            imports: self.imports.len() as u32,
            cycles: self.globals.len() as u32,
        };
        let mut types = TypeSection::new();
        for (parameters, results) in &self.types {
            define(&mut types, parameters, results);
        }
        let mut imports = ImportSection::new();
        for (name, ty) in &self.imports {
            imports.import(IMPORTS, name, EntityType::Function(*ty));
        }
        for (name, parameters, results) in Access::ALL {
            let ty = EntityType::Function(types.len());
            define(&mut types, parameters, results);
            imports.import(IMPORTS, name, ty);
        }
        let mut functions = FunctionSection::new();
        for ty in &self.declared {
            functions.function(*ty);
        }
        let mut globals = GlobalSection::new();
        for (ty, init) in &self.globals {
            globals.global(*ty, init);
        }
        let (val_type, mutable, shared) = (ValType::I64, true, false);
        let counter = GlobalType {
            val_type,
            mutable,
            shared,
        };
        globals.global(counter, &ConstExpr::i64_const(0));
        let mut exports = ExportSection::new();
        exports.export(CYCLES, ExportKind::Global, layout.cycles);
        for (name, index) in &self.exports {
            let index = rewrite::function_index(&layout, *index);
            exports.export(name, ExportKind::Func, index);
        }
        let mut code = CodeSection::new();
        for body in &self.bodies {
            code.function(&rewrite::function(&layout, body)?);
        }
        let mut module = Module::new();
        module.section(&types).section(&imports).section(&functions);
        module.section(&globals).section(&exports).section(&code);
        Ok(module.finish())
    }

    /// The private memory: the stack, then static data to the end of the module's memory.
    fn image(&self) -> Result<PrivateImage, String> {
        let is_pointer = |ty: &GlobalType| ty.mutable && ty.val_type == ValType::I64;
        let pointer = self.globals.iter().find(|(ty, _)| is_pointer(ty));
        let top = pointer.and_then(|(_, init)| stack_top(init));
        let first = self.data.iter().map(|(at, _)| *at).min();
        let stack = top.or(first).unwrap_or(NULL_BYTES);
        if first.is_some_and(|first| first < stack) {
            return Err(format!(
                "found static data below the top of the stack, {stack:#x}; allowed: the stack \
                 first (wasm-ld --stack-first)"
            ));
        }
        let end = |(at, data): &(u64, &[u8])| at.saturating_add(data.len() as u64);
        let last = self.data.iter().map(end).max().unwrap_or(stack);
        let last = last.max(stack).max(self.pages.saturating_mul(PAGE));
        if last > MOST_PRIVATE {
            return Err(format!(
                "found {last} B of stack and static data; allowed: {MOST_PRIVATE} B"
            ));
        }
        let mut image = vec![0; (last - stack) as usize];
        for (at, data) in &self.data {
            let at = (at - stack) as usize;
            image[at..at + data.len()].copy_from_slice(data);
        }
        Ok(PrivateImage { stack, data: image })
    }
}

fn define(types: &mut TypeSection, parameters: &[ValType], results: &[ValType]) {
    let (parameters, results) = (parameters.iter().copied(), results.iter().copied());
    types.ty().function(parameters, results);
}

/// The value of an initial expression that is a constant.
fn stack_top(init: &ConstExpr) -> Option<u64> {
    let mut bytes = Vec::new();
    wasm_encoder::Encode::encode(init, &mut bytes);
    let init = wasmparser::ConstExpr::new(wasmparser::BinaryReader::new(&bytes, 0));
    match init.get_operators_reader().read() {
        Ok(Operator::I64Const { value }) => Some(value as u64),
        _ => None,
    }
}

fn plain(types: &[wasmparser::ValType]) -> Result<Vec<ValType>, String> {
    let one = |ty: &wasmparser::ValType| match ty {
        wasmparser::ValType::I32 => Ok(ValType::I32),
        wasmparser::ValType::I64 => Ok(ValType::I64),
        wasmparser::ValType::F32 => Ok(ValType::F32),
        wasmparser::ValType::F64 => Ok(ValType::F64),
        other => Err(format!(
            "found a value of type {other}; allowed: i32, i64, f32, f64"
        )),
    };
    types.iter().map(one).collect()
}

fn value_type(ty: ValType) -> Option<ValueType> {
    match ty {
        ValType::I32 => Some(ValueType::I32),
        ValType::I64 => Some(ValueType::I64),
        ValType::F32 => Some(ValueType::F32),
        ValType::F64 => Some(ValueType::F64),
        _ => None,
    }
}
