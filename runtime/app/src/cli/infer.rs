use super::Exit;
use super::flags::{RunFlags, find, split};
use super::ui::{Stop, Ui};
use saltica::report::{Align, Table, number};
use saltica::{Error, ErrorKind, npy};
use saltica_tensor::{Shape, Tensor, View};
use serde::Serialize;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Run a model on raw tensors (.npy) and write what comes out
#[derive(clap::Args)]
pub(super) struct Args {
    /// ONNX file, or a model's name
    #[arg(value_name = "FILE.onnx|NAME")]
    model: PathBuf,
    /// A tensor for an input; `NAME=` may be left out if there is only one. Give once for each input
    #[arg(long = "input", short, value_name = "NAME=FILE.npy", required = true)]
    inputs: Vec<String>,
    /// Folder for the outputs, made if missing; each value becomes NAME.npy
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
    /// Write every intermediate value of the file too; nothing is fused then
    #[arg(long)]
    all: bool,
    /// Run the file's nodes one by one without --all too
    #[arg(long)]
    no_fuse: bool,
    #[command(flatten)]
    run: RunFlags,
}

#[derive(Serialize)]
struct InferRecord {
    model: String,
    backend: String,
    run_ms: f64,
    tensors: Vec<TensorFile>,
}

#[derive(Serialize)]
struct TensorFile {
    name: String,
    output: bool,
    dtype: &'static str,
    shape: Vec<usize>,
    file: String,
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, Stop> {
    let mut session =
        find(Some(&args.model), ui)?.session(&args.run.builder().optimize(!args.no_fuse && !args.all))?;
    let names: Vec<String> = session.inputs().into_iter().map(|p| p.name).collect();
    let mut given = Vec::new();
    for argument in &args.inputs {
        let (name, file) = split(argument, &names, "--input", "FILE.npy")?;
        given.push((name, npy::read(Path::new(file))?));
    }
    std::fs::create_dir_all(&args.output).map_err(|e| Error::io("make the folder", &args.output, &e))?;

    let borrowed: Vec<(&str, &Tensor)> = given.iter().map(|(n, t)| (n.as_str(), t)).collect();
    let core = session.core();
    let backend = core.backend().name().to_owned();
    let tensors = core.arrange(&borrowed).map_err(Error::from)?;
    let shapes: Vec<Shape> = tensors.iter().map(|t| *t.shape()).collect();
    let bindings = core.model().bind(&shapes).map_err(Error::from)?;
    let outputs: Vec<String> = core.model().outputs().into_iter().map(|p| p.name).collect();
    let executor = core.executor(&bindings).map_err(Error::from)?;
    for (i, tensor) in tensors.iter().enumerate() {
        executor.input_mut(i).map_err(Error::from)?.copy_from(&tensor.view());
    }
    let mut writer = Writer { folder: &args.output, used: HashSet::new(), files: Vec::new() };
    let start = Instant::now();
    if args.all {
        let mut failed = None;
        let run = executor.run_observed(|name, view| {
            if !outputs.iter().any(|o| o == name) && failed.is_none() {
                failed = writer.write(name, false, view).err();
            }
            Ok(())
        });
        run.map_err(Error::from)?;
        if let Some(e) = failed {
            return Err(e.into());
        }
    } else {
        executor.run().map_err(Error::from)?;
    }
    let run_ms = saltica::bench::milliseconds(start.elapsed());
    for (i, name) in outputs.iter().enumerate() {
        writer.write(name, true, &executor.output(i).map_err(Error::from)?)?;
    }
    let record =
        InferRecord { model: args.model.display().to_string(), backend, run_ms, tensors: writer.files };
    if ui.json {
        ui.record("infer", &record)?;
    } else {
        let mut t = Table::new(&[
            ("value", Align::Left),
            ("dtype", Align::Left),
            ("shape", Align::Left),
            ("file", Align::Left),
        ]);
        for f in &record.tensors {
            let dims: Vec<String> = f.shape.iter().map(usize::to_string).collect();
            t.row([f.name.as_str(), f.dtype, &dims.join("x"), &f.file]);
        }
        let took = format!("one run took {} ms on the {} backend\n", number(run_ms, 1), record.backend);
        ui.text(&(t.render(ui.style) + &took))?;
    }
    Ok(Exit::Done)
}

/// Writes values as files whose names are safe and different.
struct Writer<'a> {
    folder: &'a Path,
    used: HashSet<String>,
    files: Vec<TensorFile>,
}

impl Writer<'_> {
    fn write(&mut self, name: &str, output: bool, view: &View<'_>) -> Result<(), Error> {
        let tensor = view.to_tensor().map_err(|e| Error::new(ErrorKind::Run, e.to_string()))?;
        let path = self.folder.join(self.file_name(name));
        npy::write(&path, &tensor)?;
        self.files.push(TensorFile {
            name: name.to_owned(),
            output,
            dtype: tensor.dtype().name(),
            shape: tensor.shape().dims().to_vec(),
            file: path.display().to_string(),
        });
        Ok(())
    }

    /// Names in a model may hold anything (`/model/conv:0`, `../x`); those of files keep letters, digits, `.`, `-`, `_`.
    fn file_name(&mut self, name: &str) -> String {
        let safe: String =
            name.chars().map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect();
        let safe: String = safe.trim_matches(['_', '.']).chars().take(100).collect();
        let safe = if safe.is_empty() { "value".to_owned() } else { safe };
        let mut candidate = safe.clone();
        let mut n = 1;
        // Also different where a file system folds case.
        while !self.used.insert(candidate.to_lowercase()) {
            n += 1;
            candidate = format!("{safe}-{n}");
        }
        candidate + ".npy"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_safe_and_different() {
        let mut w = Writer { folder: Path::new("."), used: HashSet::new(), files: vec![] };
        let names: Vec<_> = ["/model/conv:0", "model_conv_0", "MODEL_conv_0", "../../etc", "", "\n", "ü.b"]
            .map(|n| w.file_name(n))
            .into();
        assert_eq!(
            names,
            [
                "model_conv_0.npy",
                "model_conv_0-2.npy",
                "MODEL_conv_0-3.npy",
                "etc.npy",
                "value.npy",
                "value-2.npy",
                "ü.b.npy"
            ]
        );
    }
}
