//! Flags that several subcommands share.

use super::ui::Ui;
use saltica::models::Model;
use saltica::session::{BackendKind, Session, SessionBuilder};
use saltica::{Detector, DetectorBuilder, Error, ErrorKind, Labels, ModelSpec};
use saltica_core::Port;
use saltica_models::graph::Dim;
use saltica_tensor::Shape;
use std::path::{Path, PathBuf};

/// Which model finds objects.
#[derive(clap::Args)]
pub(super) struct ModelFlag {
    /// ONNX file, or a model's name (see `saltica models list`) [default: saltica-nano, which is inside the program]
    #[arg(long, short, value_name = "FILE.onnx|NAME")]
    model: Option<PathBuf>,
}

impl ModelFlag {
    /// The model, told where nobody named it.
    pub(super) fn find(&self, ui: &Ui) -> Result<Model, Error> {
        find(self.model.as_deref(), ui)
    }

    pub(super) fn is_given(&self) -> bool {
        self.model.is_some()
    }

    /// The file, if it may be one.
    pub(super) fn path(&self) -> Option<&PathBuf> {
        self.model.as_ref()
    }
}

/// The model that an argument names, or the one inside the program, which is told.
pub(super) fn find(argument: Option<&Path>, ui: &Ui) -> Result<Model, Error> {
    let Some(argument) = argument else {
        let model = Model::built_in();
        ui.note(&format!("no --model given: {model}, inside the program"));
        return Ok(model);
    };
    let model = Model::find(argument)?;
    if let Some(note) = model.note() {
        ui.warn(note);
    }
    Ok(model)
}

/// How a model runs.
#[derive(clap::Args)]
pub(super) struct RunFlags {
    /// Threads [default: all this process may use]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) threads: Option<u16>,
    /// What computes
    #[arg(long, value_enum, default_value_t)]
    pub(super) backend: Backend,
    /// Refuse plans of more bytes than this (weights, arena and scratch together)
    #[arg(long, value_name = "BYTES")]
    memory_limit: Option<usize>,
}

/// [`BackendKind`] as a flag.
#[derive(Clone, Copy, Default, clap::ValueEnum)]
pub(super) enum Backend {
    /// SIMD kernels
    #[default]
    Cpu,
    /// The plain kernels that define each op: slow, for comparing
    Reference,
}

impl From<Backend> for BackendKind {
    fn from(b: Backend) -> Self {
        match b {
            Backend::Cpu => BackendKind::Cpu,
            Backend::Reference => BackendKind::Reference,
        }
    }
}

impl RunFlags {
    pub(super) fn builder(&self) -> SessionBuilder {
        let mut b = Session::builder().backend(self.backend.into());
        if let Some(threads) = self.threads {
            b = b.threads(threads.into());
        }
        if let Some(bytes) = self.memory_limit {
            b = b.memory_limit(bytes);
        }
        b
    }
}

/// What a model's tensors mean, and thresholds.
#[derive(clap::Args)]
pub(super) struct DetectFlags {
    /// Boxes with a score above this count, 0 to 1 [default: what suits the model, mostly 0.25]
    #[arg(long, value_name = "SCORE", value_parser = fraction)]
    pub(super) conf: Option<f32>,
    /// Of two boxes of a class that overlap by more than this the weaker goes, 0 to 1 [default: what suits the model]
    #[arg(long, value_name = "OVERLAP", value_parser = fraction)]
    iou: Option<f32>,
    /// Most objects in one picture [default: 300, in eval 100]
    #[arg(long, value_name = "N")]
    pub(super) max_det: Option<usize>,
    /// Only these classes, by name or number
    #[arg(long, value_name = "CLASS,...", value_delimiter = ',')]
    classes: Vec<String>,
    /// Boxes of different classes suppress each other, too
    #[arg(long)]
    agnostic: bool,
    /// Size of the model's input, where its file leaves it open: 640, or 640x480 (width x height)
    #[arg(long, value_name = "SIZE", value_parser = size)]
    imgsz: Option<(usize, usize)>,
    /// Description of the model (TOML) [default: NAME.toml beside NAME.onnx]
    #[arg(long, value_name = "FILE.toml")]
    spec: Option<PathBuf>,
    /// What the outputs mean, where their shapes do not tell
    #[arg(long, value_name = "NAME")]
    head: Option<String>,
    /// Class names: a file with one a line, or coco80
    #[arg(long, value_name = "FILE")]
    labels: Option<String>,
    /// Take no fallback: an op without a fast kernel is an error
    #[arg(long)]
    strict: bool,
}

impl DetectFlags {
    pub(super) fn builder(&self, run: &RunFlags) -> Result<DetectorBuilder, Error> {
        let mut b =
            Detector::builder().backend(run.backend.into()).strict(self.strict).agnostic(self.agnostic);
        if let Some(threads) = run.threads {
            b = b.threads(threads.into());
        }
        if let Some(bytes) = run.memory_limit {
            b = b.memory_limit(bytes);
        }
        if let Some(v) = self.conf {
            b = b.conf(v);
        }
        if let Some(v) = self.iou {
            b = b.iou(v);
        }
        if let Some(v) = self.max_det {
            b = b.max_det(v);
        }
        if let Some((w, h)) = self.imgsz {
            b = b.size(w, h);
        }
        if let Some(name) = &self.head {
            b = b.head(name);
        }
        if let Some(name) = &self.labels {
            b = b.labels(Labels::named(name, None)?);
        }
        if let Some(path) = &self.spec {
            b = b.spec(ModelSpec::open(path)?);
        }
        Ok(b.classes(&self.classes))
    }

    /// Whether the head was named, so that it must fit.
    pub(super) fn names_head(&self) -> bool {
        self.head.is_some() || self.spec.is_some()
    }

    /// The input size asked for.
    pub(super) fn size(&self) -> Option<(usize, usize)> {
        self.imgsz
    }
}

/// Shapes of inputs that are no picture.
#[derive(clap::Args)]
pub(super) struct ShapeFlags {
    /// Shape of an input whose dims the file leaves open; `NAME=` may be left out if there is only one
    #[arg(long = "shape", value_name = "NAME=1x3x640x640")]
    shapes: Vec<String>,
}

impl ShapeFlags {
    /// Whether no shape is given.
    pub(super) fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }

    /// A shape for every input: as given, else as the file fixes it, else for a picture input of this batch and size.
    pub(super) fn shapes(
        &self,
        ports: &[Port],
        batch: Option<usize>,
        size: Option<(usize, usize)>,
    ) -> Result<Vec<Shape>, Error> {
        let names: Vec<String> = ports.iter().map(|p| p.name.clone()).collect();
        let mut given = Vec::new();
        for argument in &self.shapes {
            let (name, dims) = split(argument, &names, "--shape", "1x3x640x640")?;
            given.push((name, parse_shape(dims)?));
        }
        ports
            .iter()
            .map(|port| {
                if let Some((_, shape)) = given.iter().find(|(n, _)| *n == port.name) {
                    return Ok(*shape);
                }
                let fixed: Option<Vec<usize>> = port.dims.as_deref().and_then(|dims| {
                    dims.iter().map(|d| if let Dim::Fixed(n) = d { Some(*n) } else { None }).collect()
                });
                match fixed {
                    Some(dims) if batch.is_none_or(|b| dims.first() == Some(&b)) => {
                        Shape::new(&dims).map_err(Error::from)
                    }
                    _ => saltica::session::image_shape(port, batch, size).map_err(|e| {
                        Error::new(
                            e.kind(),
                            format!("{e} (or give its shape with --shape {}=...)", port.name),
                        )
                    }),
                }
            })
            .collect()
    }
}

/// `NAME=VALUE` by the model's own names, which may hold `=`; a bare value for the only input.
pub(super) fn split<'a>(
    argument: &'a str,
    names: &[String],
    flag: &str,
    value: &str,
) -> Result<(String, &'a str), Error> {
    // The longest name that fits: `a=b` goes before `a`.
    let fits = names.iter().filter_map(|name| {
        let rest = argument.strip_prefix(name.as_str())?.strip_prefix('=')?;
        Some((name.clone(), rest))
    });
    if let Some(found) = fits.max_by_key(|(name, _)| name.len()) {
        return Ok(found);
    }
    match names {
        [only] if Path::new(argument).exists() || !argument.contains('=') => Ok((only.clone(), argument)),
        _ => Err(Error::new(
            ErrorKind::Usage,
            format!(
                "{flag} {argument} names no input; expected NAME={value} with a NAME of {}",
                names.join(", ")
            ),
        )),
    }
}

fn parse_shape(text: &str) -> Result<Shape, Error> {
    let bad =
        || Error::new(ErrorKind::Usage, format!("shape {text} found, numbers as in 1x3x640x640 expected"));
    let dims: Vec<usize> =
        text.split(['x', ',']).map(|d| d.trim().parse().map_err(|_| bad())).collect::<Result<_, _>>()?;
    Shape::new(&dims).map_err(Error::from)
}

fn fraction(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(v) if (0.0..=1.0).contains(&v) => Ok(v),
        _ => Err("a number from 0 to 1 expected".into()),
    }
}

fn size(text: &str) -> Result<(usize, usize), String> {
    let side = |t: &str| t.trim().parse::<usize>().ok().filter(|s| (1..=1 << 16).contains(s));
    let both = match text.split_once(['x', ',']) {
        Some((w, h)) => side(w).zip(side(h)),
        None => side(text).map(|s| (s, s)),
    };
    both.ok_or_else(|| "a size as 640 or 640x480 (width x height) expected".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use saltica_tensor::DType;

    #[test]
    fn sizes_and_fractions() {
        assert_eq!(size("640"), Ok((640, 640)));
        assert_eq!(size("640x480"), Ok((640, 480)));
        for bad in ["0", "640x", "axb", "70000", "-1", "640x480x3"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        assert_eq!(fraction("0.5"), Ok(0.5));
        for bad in ["1.1", "-0.1", "nan", "x"] {
            assert!(fraction(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn inputs_are_found_by_the_models_names() {
        let split = |a, n| super::split(a, n, "--input", "FILE.npy");
        let names = ["a".to_owned(), "a=b".to_owned()];
        assert_eq!(split("a=b.npy", &names).unwrap(), ("a".into(), "b.npy"));
        assert_eq!(split("a=b=c.npy", &names).unwrap(), ("a=b".into(), "c.npy"));
        assert_eq!(split("x.npy", &names[..1]).unwrap(), ("a".into(), "x.npy"));
        assert!(split("x.npy", &names).unwrap_err().to_string().contains("a, a=b"));
        assert!(split("c=x.npy", &names[..1]).is_err());
    }

    #[test]
    fn shapes_are_given_fixed_or_a_pictures() {
        let port = |name: &str, dims: &[Dim]| Port {
            name: name.into(),
            dtype: Some(DType::F32),
            dims: Some(dims.to_vec()),
        };
        let ports = [port("x", &[Dim::Fixed(2), Dim::Fixed(5)]), port("y", &[Dim::Unknown, Dim::Fixed(4)])];
        let flags = ShapeFlags { shapes: vec!["y=7x4".into()] };
        let shapes = flags.shapes(&ports, None, None).unwrap();
        assert_eq!((shapes[0].dims(), shapes[1].dims()), (&[2, 5][..], &[7, 4][..]));
        let none = ShapeFlags { shapes: vec![] };
        assert!(none.shapes(&ports, None, None).unwrap_err().to_string().contains("--shape y="));
        let odd = ShapeFlags { shapes: vec!["y=7xa".into()] };
        assert!(odd.shapes(&ports, None, None).unwrap_err().to_string().contains("7xa"));
    }
}
