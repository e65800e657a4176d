use super::from_node::{Built, case, ints, node, t};
use super::indexing::{Dims, Ints};
use super::{Case, Fact, Operator, OutFact, required};
use crate::Result;
use crate::graph::attrs::NodeInfo;
use saltica_tensor::{Layout, MAX_RANK, Shape, View, ViewMut, f16};

/// Dims reordered, [ONNX Transpose](https://onnx.ai/onnx/operators/onnx__Transpose.html).
///
/// Inputs: x, any dtype. Dim `i` of the result is dim `perm[i]` of x.
#[derive(Clone, Debug, PartialEq)]
pub struct Transpose {
    /// The permutation; `None` reverses the dims.
    pub perm: Option<Vec<usize>>,
}

impl Transpose {
    /// The permutation for this rank: the first `rank` entries count.
    pub fn perm_for(&self, rank: usize) -> [usize; MAX_RANK] {
        let mut perm = [0; MAX_RANK];
        match &self.perm {
            Some(p) => p.iter().zip(&mut perm).for_each(|(&from, to)| *to = from),
            None => (0..rank).rev().zip(&mut perm).for_each(|(from, to)| *to = from),
        }
        perm
    }
}

impl Operator for Transpose {
    fn parse(node: &NodeInfo) -> Result<Self> {
        let Some(listed) = node.ints("perm")? else { return Ok(Transpose { perm: None }) };
        let rank = listed.len();
        let mut perm = Dims::default();
        for &p in Ints::new(&listed, "perm")?.iter() {
            perm.push(Shape::axis(p, rank)?)?;
        }
        Ok(Transpose { perm: Some(perm.to_vec()) })
    }

    fn name(&self) -> &str {
        "Transpose"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        let rank = x.shape.rank();
        let perm = self.perm_for(rank);
        let perm = self.perm.as_deref().unwrap_or(&perm[..rank]);
        Ok(vec![OutFact { dtype: x.dtype, shape: *Layout::contiguous(x.shape).permuted(perm)?.shape() }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = required(inputs, 0, "x")?;
        let rank = x.shape().rank();
        outputs[0].copy_from(&x.permuted(&self.perm_for(rank)[..rank])?);
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let perm = |p: &[i64]| node("Transpose", 13, vec![("perm", ints(p))]);
        let n: Vec<i64> = (0..24).collect();
        let h: Vec<f16> = (0..6).map(|i| f16::from_f32(i as f32)).collect();
        let one_of = |order: [usize; 6]| order.map(|i| h[i]);
        // Every permutation of a model seen in the wild, on dims of distinct sizes; the expectation is the definition
        // y[i0, i1, ...] = x[index with i[k] at perm[k]], spelled out.
        let spelled = |p: &[i64]| -> Built<Case> {
            let dims = &[2usize, 3, 4, 1, 5, 2][..p.len()];
            let x: Vec<f32> = (0..dims.iter().product::<usize>()).map(|i| i as f32).collect();
            let out: Vec<usize> = p.iter().map(|&k| dims[k as usize]).collect();
            let strides = Shape::new(dims)?.row_major();
            let y: Vec<f32> = Shape::new(&out)?
                .indices()
                .map(|i| x[p.iter().zip(i).map(|(&k, i)| i * strides[k as usize]).sum::<usize>()])
                .collect();
            case(&format!("perm {p:?}"), perm(p), vec![t(dims, &x)], vec![t(&out, &y)])
        };
        let seen: &[&[i64]] = &[
            &[1, 0],
            &[1, 0, 2],
            &[0, 2, 1],
            &[1, 2, 0],
            &[2, 0, 1],
            &[0, 3, 1, 2],
            &[0, 1, 3, 2],
            &[0, 2, 1, 3],
            &[0, 2, 3, 1],
            &[0, 3, 2, 1],
            &[2, 0, 1, 3],
            &[0, 2, 1, 3, 4],
            &[0, 3, 4, 1, 2],
            &[0, 1, 3, 4, 2],
            &[2, 0, 3, 1, 4],
            &[0, 5, 1, 3, 2, 4],
            &[0, 1, 3, 2, 4, 5],
        ];
        let build = || -> Built<Vec<Case>> {
            let mut all = vec![
                // numpy: np.arange(6).reshape(2, 3).T
                case(
                    "default reverses",
                    node("Transpose", 9, vec![]),
                    vec![t(&[2, 3], &h)],
                    vec![t(&[3, 2], &one_of([0, 3, 1, 4, 2, 5]))],
                )?,
                // numpy: np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1)
                case(
                    "i64",
                    perm(&[2, 0, 1]),
                    vec![t(&[2, 3, 4], &n)],
                    vec![t(
                        &[4, 2, 3],
                        &[
                            0i64, 4, 8, 12, 16, 20, 1, 5, 9, 13, 17, 21, 2, 6, 10, 14, 18, 22, 3, 7, 11, 15,
                            19, 23,
                        ],
                    )],
                )?,
                case("empty", perm(&[1, 0]), vec![t(&[3, 0], &[0u8; 0])], vec![t(&[0, 3], &[0u8; 0])])?,
            ];
            for p in seen {
                all.push(spelled(p)?);
            }
            Ok(all)
        };
        super::built(build)
    }
}
