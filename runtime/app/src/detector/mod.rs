//! A model that finds objects in pictures.

mod builder;
mod picture;

pub use builder::DetectorBuilder;
pub(crate) use builder::class_number;
pub use picture::Picture;

use crate::bench::FrameTime;
use crate::session::{Session, image_shape};
use crate::{Error, ErrorKind, Result};
use saltica_core::{Executor, Port};
use saltica_models::graph::Dim;
use saltica_models::passes::Bindings;
use saltica_tensor::{Geometry, View, ViewMut};
use saltica_vision::{DecodeParams, Detections, Head, Preprocessor};
use std::time::Instant;

/// Most outputs a detector's model may have: YuNet, which has the most, has twelve.
pub(crate) const MAX_OUTPUTS: usize = 16;

/// A model, what its tensors mean, and thresholds.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut detector = saltica::Detector::builder().conf(0.4).classes(&["person", "dog"]).load("yolox_nano.onnx")?;
/// let picture = saltica::Image::open("street.jpg")?;
/// let found = detector.detect(&picture)?;
/// for object in found.items() {
///     let [left, top, right, bottom] = object.bbox;
///     println!("{} {:.2} at {left},{top} to {right},{bottom}", detector.head().label(object.class), object.score);
/// }
/// # Ok(())
/// # }
/// ```
pub struct Detector {
    session: Session,
    head: Head,
    params: DecodeParams,
    preprocessor: Preprocessor,
    port: Port,
    /// Bindings of each batch size in use.
    bindings: Vec<(usize, Bindings)>,
    geometries: Vec<Geometry>,
}

impl Detector {
    /// Settings before loading.
    pub fn builder() -> DetectorBuilder {
        DetectorBuilder::default()
    }

    /// Loads a model with the settings that suit it; see [`DetectorBuilder::load`].
    pub fn load(path: impl AsRef<std::path::Path>) -> Result<Detector> {
        Self::builder().load(path)
    }

    /// Finds objects in one picture: an [`Image`](crate::Image), an `image::DynamicImage`, an array of rows, columns and
    /// the channels red, green, blue (`ndarray::ArrayView3<u8>`), or [`Pixels`](saltica_tensor::Pixels) that a camera
    /// owns.
    pub fn detect<'a, P>(&mut self, picture: P) -> Result<Detections>
    where
        P: TryInto<Picture<'a>>,
        Error: From<P::Error>,
    {
        let mut out = Detections::new();
        self.detect_into(picture, &mut out)?;
        Ok(out)
    }

    /// As [`Self::detect`], into a result that is used again, and says where the time went.
    pub fn detect_into<'a, P>(&mut self, picture: P, out: &mut Detections) -> Result<FrameTime>
    where
        P: TryInto<Picture<'a>>,
        Error: From<P::Error>,
    {
        self.detect_batch_into(&[picture.try_into()?], std::slice::from_mut(out))
    }

    /// As [`Self::detect`], for an array of rows, columns and the channels red, green, blue.
    ///
    /// # Errors
    /// Also if the last dimension is not 3 or the array is empty.
    pub fn detect_array(&mut self, picture: ndarray::ArrayView3<'_, u8>) -> Result<Detections> {
        self.detect(picture)
    }

    /// Finds objects in several pictures of any sizes, in one run of the model where it takes them all at once, else in
    /// several. Results are in the pictures' order and the same as of single pictures.
    pub fn detect_batch<'a, P>(&mut self, pictures: impl IntoIterator<Item = P>) -> Result<Vec<Detections>>
    where
        P: TryInto<Picture<'a>>,
        Error: From<P::Error>,
    {
        let pictures: Vec<Picture<'a>> =
            pictures.into_iter().map(|p| Ok(p.try_into()?)).collect::<Result<_>>()?;
        let mut out: Vec<Detections> = pictures.iter().map(|_| Detections::new()).collect();
        let at_once = self.fixed_batch().unwrap_or(pictures.len()).max(1);
        for (pictures, out) in pictures.chunks(at_once).zip(out.chunks_mut(at_once)) {
            self.detect_batch_into(pictures, out)?;
        }
        Ok(out)
    }

    /// One run of the model on as many pictures, into results that are used again; `out` holds one for each. At most as
    /// many pictures as the file's batch, where it fixes one. Says where the time went.
    pub fn detect_batch_into(
        &mut self,
        pictures: &[Picture<'_>],
        out: &mut [Detections],
    ) -> Result<FrameTime> {
        // A file may fix its batch: then the rest of the batch is zeros, and what is found there is not read.
        let batch = self.fixed_batch().unwrap_or(pictures.len());
        if pictures.len() != out.len() || pictures.len() > batch || pictures.is_empty() {
            return Err(Error::new(
                ErrorKind::Usage,
                format!(
                    "{} pictures and {} results found; as many of both expected, 1 to {} (the model's batch)",
                    pictures.len(),
                    out.len(),
                    self.fixed_batch().map_or_else(|| "any number".into(), |n| n.to_string())
                ),
            ));
        }
        self.bind(batch)?;
        let Self { session, head, params, preprocessor, bindings, geometries, .. } = self;
        let bindings = bindings
            .iter()
            .find(|(n, _)| *n == batch)
            .map(|(_, b)| b)
            .ok_or_else(|| Error::new(ErrorKind::Run, format!("no plan for a batch of {batch}")))?;
        let executor = session.core().executor(bindings)?;

        let start = Instant::now();
        geometries.clear();
        for (i, picture) in pictures.iter().enumerate() {
            geometries.push(preprocessor.run(&picture.pixels(), &mut executor.input_mut(0)?, i)?);
        }
        if pictures.len() < batch {
            // Ops that look at the whole input, a range for its quantization say, must not see an earlier run's leftovers.
            let rest = executor.input_mut(0)?.sliced(0, pictures.len(), batch - pictures.len(), 1)?;
            clear(rest);
        }
        let preprocessed = Instant::now();
        executor.run()?;
        let inferred = Instant::now();
        let (views, n) = output_views(executor)?;
        for (i, (geometry, out)) in geometries.iter().zip(out).enumerate() {
            head.decode(&views[..n], i, params, geometry, out)?;
        }
        Ok(FrameTime {
            preprocess: preprocessed - start,
            infer: inferred - preprocessed,
            postprocess: inferred.elapsed(),
        })
    }

    /// The batch size the file fixes, if it does.
    pub fn fixed_batch(&self) -> Option<usize> {
        match self.port.dims.as_deref() {
            Some([Dim::Fixed(n), ..]) => Some(*n),
            _ => None,
        }
    }

    /// Plans for a batch size, if that was not done yet, and returns the executor. Detection does this by itself; done
    /// before, it takes the planning out of the first picture's time.
    pub fn prepare(&mut self, batch: usize) -> Result<&mut Executor> {
        self.bind(batch)?;
        match self.bindings.iter().find(|(n, _)| *n == batch) {
            Some((_, b)) => Ok(self.session.core().executor(b)?),
            None => Err(Error::new(ErrorKind::Run, format!("no plan for a batch of {batch}"))),
        }
    }

    fn bind(&mut self, batch: usize) -> Result<()> {
        if self.bindings.iter().all(|(n, _)| *n != batch) {
            let shape = image_shape(&self.port, Some(batch), Some(self.head.input()))?;
            let bindings = self.session.core().model().bind(&[shape])?;
            self.bindings.push((batch, bindings));
        }
        Ok(())
    }

    /// What the model's tensors mean.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Thresholds and limits.
    pub fn params(&self) -> &DecodeParams {
        &self.params
    }

    /// Thresholds and limits, to be changed between pictures.
    pub fn params_mut(&mut self) -> &mut DecodeParams {
        &mut self.params
    }

    /// How pictures become the model's input.
    pub fn preprocessor(&self) -> &Preprocessor {
        &self.preprocessor
    }

    /// The model below.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Taken apart, for stages that run on threads of their own.
    pub(crate) fn into_parts(self) -> Parts {
        Parts { session: self.session, head: self.head, params: self.params, port: self.port }
    }
}

/// What a detector is made of.
pub(crate) struct Parts {
    pub(crate) session: Session,
    pub(crate) head: Head,
    pub(crate) params: DecodeParams,
    pub(crate) port: Port,
}

/// All outputs, without allocating.
fn output_views(executor: &Executor) -> Result<([View<'_>; MAX_OUTPUTS], usize)> {
    let n = executor.outputs();
    let mut views = [executor.output(0)?; MAX_OUTPUTS];
    for (i, view) in views.iter_mut().enumerate().take(n).skip(1) {
        *view = executor.output(i)?;
    }
    Ok((views, n))
}

/// Makes all elements zeros, without allocating.
pub(crate) fn clear(mut view: ViewMut<'_>) {
    if let Some(all) = view.as_mut_slice::<f32>() {
        all.fill(0.0);
    } else if let Some(all) = view.as_mut_slice::<u8>() {
        all.fill(0);
    } else {
        (0..view.shape().elements()).for_each(|i| view.put_f64(i, 0.0));
    }
}
