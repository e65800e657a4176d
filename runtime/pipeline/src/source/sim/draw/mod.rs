//! The drawings: one file per class or family. Each fills a [`Mesh`](super::mesh::Mesh) for one object at one moment;
//! looks (shape, colours, clothes) follow from the object's key alone, posture from the distance travelled.

pub(super) mod bicycle;
pub(super) mod bus;
pub(super) mod car;
pub(super) mod dog;
pub(super) mod fixtures;
pub(super) mod person;
pub(super) mod props;
pub(super) mod truck;
pub(super) mod wheels;
