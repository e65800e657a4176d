//! Cases of [`super::Resize`]: written by `models/tools/sampling_cases.py`, expected values by onnxruntime 1.32.0.

use super::Case;
use super::literal::{CLOSE, CLOSE_F16, EXACT, case, f16s, f32s, float, i64s, int, ints, node, string, u8s};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case(
            "doubled, as YOLO exporters write it",
            node(
                "Resize",
                13,
                3,
                vec![
                    string("mode", "nearest"),
                    string("coordinate_transformation_mode", "asymmetric"),
                    string("nearest_mode", "floor"),
                    float("cubic_coeff_a", -0.75),
                ],
            ),
            vec![
                f32s(&[1, 2, 2, 3], &[0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75, 10., 3.25, 12.5, 5.75]),
                f32s(&[0], &[]),
                f32s(&[4], &[1., 1., 2., 2.]),
            ],
            vec![f32s(
                &[1, 2, 4, 6],
                &[
                    0., 0., 9.25, 9.25, 2.5, 2.5, 0., 0., 9.25, 9.25, 2.5, 2.5, 11.75, 11.75, 5., 5., 14.25,
                    14.25, 11.75, 11.75, 5., 5., 14.25, 14.25, 7.5, 7.5, 0.75, 0.75, 10., 10., 7.5, 7.5,
                    0.75, 0.75, 10., 10., 3.25, 3.25, 12.5, 12.5, 5.75, 5.75, 3.25, 3.25, 12.5, 12.5, 5.75,
                    5.75,
                ],
            )],
            EXACT,
        ),
        case(
            "doubled, f16",
            node(
                "Resize",
                13,
                3,
                vec![
                    string("mode", "nearest"),
                    string("coordinate_transformation_mode", "asymmetric"),
                    string("nearest_mode", "floor"),
                    float("cubic_coeff_a", -0.75),
                ],
            ),
            vec![f16s(&[1, 1, 2, 2], &[0., 9.25, 2.5, 11.75]), None, f32s(&[4], &[1., 1., 2., 2.])],
            vec![f16s(
                &[1, 1, 4, 4],
                &[0., 0., 9.25, 9.25, 0., 0., 9.25, 9.25, 2.5, 2.5, 11.75, 11.75, 2.5, 2.5, 11.75, 11.75],
            )],
            EXACT,
        ),
        case(
            "doubled, u8",
            node(
                "Resize",
                13,
                3,
                vec![
                    string("mode", "nearest"),
                    string("coordinate_transformation_mode", "asymmetric"),
                    string("nearest_mode", "floor"),
                    float("cubic_coeff_a", -0.75),
                ],
            ),
            vec![u8s(&[1, 1, 2, 2], &[0, 37, 10, 47]), None, f32s(&[4], &[1., 1., 2., 2.])],
            vec![u8s(&[1, 1, 4, 4], &[0, 0, 37, 37, 0, 0, 37, 37, 10, 10, 47, 47, 10, 10, 47, 47])],
            EXACT,
        ),
        case(
            "to sizes, opset 11",
            node(
                "Resize",
                11,
                4,
                vec![
                    string("mode", "nearest"),
                    string("coordinate_transformation_mode", "asymmetric"),
                    string("nearest_mode", "floor"),
                    float("cubic_coeff_a", -0.75),
                ],
            ),
            vec![
                f32s(&[1, 1, 3, 2], &[0., 9.25, 2.5, 11.75, 5., 14.25]),
                f32s(&[0], &[]),
                f32s(&[0], &[]),
                i64s(&[4], &[1, 1, 5, 7]),
            ],
            vec![f32s(
                &[1, 1, 5, 7],
                &[
                    0., 0., 0., 0., 9.25, 9.25, 9.25, 0., 0., 0., 0., 9.25, 9.25, 9.25, 2.5, 2.5, 2.5, 2.5,
                    11.75, 11.75, 11.75, 2.5, 2.5, 2.5, 2.5, 11.75, 11.75, 11.75, 5., 5., 5., 5., 14.25,
                    14.25, 14.25,
                ],
            )],
            EXACT,
        ),
        case(
            "nothing changes",
            node(
                "Resize",
                13,
                3,
                vec![
                    string("mode", "nearest"),
                    string("coordinate_transformation_mode", "asymmetric"),
                    string("nearest_mode", "floor"),
                    float("cubic_coeff_a", -0.75),
                ],
            ),
            vec![f32s(&[1, 1, 2, 2], &[0., 9.25, 2.5, 11.75]), None, f32s(&[4], &[1., 1., 1., 1.])],
            vec![f32s(&[1, 1, 2, 2], &[0., 9.25, 2.5, 11.75])],
            EXACT,
        ),
        case(
            "nearest, half_pixel, larger",
            node(
                "Resize",
                13,
                4,
                vec![string("mode", "nearest"), string("coordinate_transformation_mode", "half_pixel")],
            ),
            vec![
                f32s(&[1, 1, 2, 3], &[0., 9.25, 2.5, 11.75, 5., 14.25]),
                None,
                None,
                i64s(&[4], &[1, 1, 4, 5]),
            ],
            vec![f32s(
                &[1, 1, 4, 5],
                &[
                    0., 0., 9.25, 2.5, 2.5, 0., 0., 9.25, 2.5, 2.5, 11.75, 11.75, 5., 14.25, 14.25, 11.75,
                    11.75, 5., 14.25, 14.25,
                ],
            )],
            EXACT,
        ),
        case(
            "nearest, half_pixel, smaller",
            node(
                "Resize",
                13,
                3,
                vec![string("mode", "nearest"), string("coordinate_transformation_mode", "half_pixel")],
            ),
            vec![
                f32s(
                    &[1, 1, 5, 4],
                    &[
                        0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75, 10., 3.25, 12.5, 5.75, 15., 8.25, 1.5,
                        10.75, 4., 13.25, 6.5, 15.75,
                    ],
                ),
                None,
                f32s(&[4], &[1., 1., 0.6, 0.8]),
            ],
            vec![f32s(&[1, 1, 3, 3], &[0., 9.25, 11.75, 10., 3.25, 5.75, 4., 13.25, 15.75])],
            EXACT,
        ),
        case(
            "linear, half_pixel, larger",
            node(
                "Resize",
                13,
                4,
                vec![string("mode", "linear"), string("coordinate_transformation_mode", "half_pixel")],
            ),
            vec![
                f32s(&[1, 1, 2, 3], &[0., 9.25, 2.5, 11.75, 5., 14.25]),
                None,
                None,
                i64s(&[4], &[1, 1, 4, 5]),
            ],
            vec![f32s(
                &[1, 1, 4, 5],
                &[
                    0., 3.7000003, 9.25, 5.199999, 2.5, 2.9375, 5.0375, 8.1875, 6.5374994, 5.4375, 8.8125,
                    7.7125, 6.0625, 9.212501, 11.3125, 11.75, 9.05, 5., 10.550001, 14.25,
                ],
            )],
            CLOSE,
        ),
        case(
            "linear, half_pixel, smaller",
            node(
                "Resize",
                13,
                3,
                vec![string("mode", "linear"), string("coordinate_transformation_mode", "half_pixel")],
            ),
            vec![
                f32s(
                    &[1, 1, 5, 4],
                    &[
                        0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75, 10., 3.25, 12.5, 5.75, 15., 8.25, 1.5,
                        10.75, 4., 13.25, 6.5, 15.75,
                    ],
                ),
                None,
                f32s(&[4], &[1., 1., 0.6, 0.8]),
            ],
            vec![f32s(
                &[1, 1, 3, 3],
                &[2.8229165, 8.385417, 6.6145835, 9.15625, 6.71875, 8.28125, 8.156251, 9.052083, 10.614582],
            )],
            CLOSE,
        ),
        case(
            "cubic, half_pixel, larger",
            node(
                "Resize",
                13,
                4,
                vec![string("mode", "cubic"), string("coordinate_transformation_mode", "half_pixel")],
            ),
            vec![
                f32s(&[1, 1, 2, 3], &[0., 9.25, 2.5, 11.75, 5., 14.25]),
                None,
                None,
                i64s(&[4], &[1, 1, 4, 5]),
            ],
            vec![f32s(
                &[1, 1, 4, 5],
                &[
                    -2.289258, 3.6119924, 9.698242, 5.32199, 0.45074308, 2.1221108, 5.069609, 8.287109,
                    6.779609, 4.8621116, 9.387895, 7.4703884, 5.9628906, 9.180395, 12.127896, 13.799263,
                    8.928004, 4.551758, 10.638014, 16.539265,
                ],
            )],
            CLOSE,
        ),
        case(
            "cubic, half_pixel, smaller",
            node(
                "Resize",
                13,
                3,
                vec![string("mode", "cubic"), string("coordinate_transformation_mode", "half_pixel")],
            ),
            vec![
                f32s(
                    &[1, 1, 5, 4],
                    &[
                        0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75, 10., 3.25, 12.5, 5.75, 15., 8.25, 1.5,
                        10.75, 4., 13.25, 6.5, 15.75,
                    ],
                ),
                None,
                f32s(&[4], &[1., 1., 0.6, 0.8]),
            ],
            vec![f32s(
                &[1, 1, 3, 3],
                &[2.4340634, 9.518684, 5.987575, 9.199829, 6.286621, 8.792114, 8.259285, 8.995527, 10.296591],
            )],
            CLOSE,
        ),
        case(
            "linear, half_pixel, to one pixel",
            node(
                "Resize",
                13,
                4,
                vec![string("mode", "linear"), string("coordinate_transformation_mode", "half_pixel")],
            ),
            vec![
                f32s(&[1, 1, 3, 4], &[0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75, 10., 3.25, 12.5, 5.75]),
                None,
                None,
                i64s(&[4], &[1, 1, 1, 1]),
            ],
            vec![f32s(&[1, 1, 1, 1], &[10.875])],
            CLOSE,
        ),
        case(
            "nearest, pytorch_half_pixel, larger",
            node(
                "Resize",
                13,
                4,
                vec![
                    string("mode", "nearest"),
                    string("coordinate_transformation_mode", "pytorch_half_pixel"),
                ],
            ),
            vec![
                f32s(&[1, 1, 2, 3], &[0., 9.25, 2.5, 11.75, 5., 14.25]),
                None,
                None,
                i64s(&[4], &[1, 1, 4, 5]),
            ],
            vec![f32s(
                &[1, 1, 4, 5],
                &[
                    0., 0., 9.25, 2.5, 2.5, 0., 0., 9.25, 2.5, 2.5, 11.75, 11.75, 5., 14.25, 14.25, 11.75,
                    11.75, 5., 14.25, 14.25,
                ],
            )],
            EXACT,
        ),
        case(
            "nearest, pytorch_half_pixel, smaller",
            node(
                "Resize",
                13,
                3,
                vec![
                    string("mode", "nearest"),
                    string("coordinate_transformation_mode", "pytorch_half_pixel"),
                ],
            ),
            vec![
                f32s(
                    &[1, 1, 5, 4],
                    &[
                        0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75, 10., 3.25, 12.5, 5.75, 15., 8.25, 1.5,
                        10.75, 4., 13.25, 6.5, 15.75,
                    ],
                ),
                None,
                f32s(&[4], &[1., 1., 0.6, 0.8]),
            ],
            vec![f32s(&[1, 1, 3, 3], &[0., 9.25, 11.75, 10., 3.25, 5.75, 4., 13.25, 15.75])],
            EXACT,
        ),
        case(
            "linear, pytorch_half_pixel, larger",
            node(
                "Resize",
                13,
                4,
                vec![
                    string("mode", "linear"),
                    string("coordinate_transformation_mode", "pytorch_half_pixel"),
                ],
            ),
            vec![
                f32s(&[1, 1, 2, 3], &[0., 9.25, 2.5, 11.75, 5., 14.25]),
                None,
                None,
                i64s(&[4], &[1, 1, 4, 5]),
            ],
            vec![f32s(
                &[1, 1, 4, 5],
                &[
                    0., 3.7000003, 9.25, 5.199999, 2.5, 2.9375, 5.0375, 8.1875, 6.5374994, 5.4375, 8.8125,
                    7.7125, 6.0625, 9.212501, 11.3125, 11.75, 9.05, 5., 10.550001, 14.25,
                ],
            )],
            CLOSE,
        ),
        case(
            "linear, pytorch_half_pixel, smaller",
            node(
                "Resize",
                13,
                3,
                vec![
                    string("mode", "linear"),
                    string("coordinate_transformation_mode", "pytorch_half_pixel"),
                ],
            ),
            vec![
                f32s(
                    &[1, 1, 5, 4],
                    &[
                        0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75, 10., 3.25, 12.5, 5.75, 15., 8.25, 1.5,
                        10.75, 4., 13.25, 6.5, 15.75,
                    ],
                ),
                None,
                f32s(&[4], &[1., 1., 0.6, 0.8]),
            ],
            vec![f32s(
                &[1, 1, 3, 3],
                &[2.8229165, 8.385417, 6.6145835, 9.15625, 6.71875, 8.28125, 8.156251, 9.052083, 10.614582],
            )],
            CLOSE,
        ),
        case(
            "cubic, pytorch_half_pixel, larger",
            node(
                "Resize",
                13,
                4,
                vec![string("mode", "cubic"), string("coordinate_transformation_mode", "pytorch_half_pixel")],
            ),
            vec![
                f32s(&[1, 1, 2, 3], &[0., 9.25, 2.5, 11.75, 5., 14.25]),
                None,
                None,
                i64s(&[4], &[1, 1, 4, 5]),
            ],
            vec![f32s(
                &[1, 1, 4, 5],
                &[
                    -2.289258, 3.6119924, 9.698242, 5.32199, 0.45074308, 2.1221108, 5.069609, 8.287109,
                    6.779609, 4.8621116, 9.387895, 7.4703884, 5.9628906, 9.180395, 12.127896, 13.799263,
                    8.928004, 4.551758, 10.638014, 16.539265,
                ],
            )],
            CLOSE,
        ),
        case(
            "cubic, pytorch_half_pixel, smaller",
            node(
                "Resize",
                13,
                3,
                vec![string("mode", "cubic"), string("coordinate_transformation_mode", "pytorch_half_pixel")],
            ),
            vec![
                f32s(
                    &[1, 1, 5, 4],
                    &[
                        0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75, 10., 3.25, 12.5, 5.75, 15., 8.25, 1.5,
                        10.75, 4., 13.25, 6.5, 15.75,
                    ],
                ),
                None,
                f32s(&[4], &[1., 1., 0.6, 0.8]),
            ],
            vec![f32s(
                &[1, 1, 3, 3],
                &[2.4340634, 9.518684, 5.987575, 9.199829, 6.286621, 8.792114, 8.259285, 8.995527, 10.296591],
            )],
            CLOSE,
        ),
        case(
            "linear, pytorch_half_pixel, to one pixel",
            node(
                "Resize",
                13,
                4,
                vec![
                    string("mode", "linear"),
                    string("coordinate_transformation_mode", "pytorch_half_pixel"),
                ],
            ),
            vec![
                f32s(&[1, 1, 3, 4], &[0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75, 10., 3.25, 12.5, 5.75]),
                None,
                None,
                i64s(&[4], &[1, 1, 1, 1]),
            ],
            vec![f32s(&[1, 1, 1, 1], &[0.])],
            CLOSE,
        ),
        case(
            "nearest, align_corners, larger",
            node(
                "Resize",
                13,
                4,
                vec![string("mode", "nearest"), string("coordinate_transformation_mode", "align_corners")],
            ),
            vec![
                f32s(&[1, 1, 2, 3], &[0., 9.25, 2.5, 11.75, 5., 14.25]),
                None,
                None,
                i64s(&[4], &[1, 1, 4, 5]),
            ],
            vec![f32s(
                &[1, 1, 4, 5],
                &[
                    0., 0., 9.25, 9.25, 2.5, 0., 0., 9.25, 9.25, 2.5, 11.75, 11.75, 5., 5., 14.25, 11.75,
                    11.75, 5., 5., 14.25,
                ],
            )],
            EXACT,
        ),
        case(
            "nearest, align_corners, smaller",
            node(
                "Resize",
                13,
                3,
                vec![string("mode", "nearest"), string("coordinate_transformation_mode", "align_corners")],
            ),
            vec![
                f32s(
                    &[1, 1, 5, 4],
                    &[
                        0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75, 10., 3.25, 12.5, 5.75, 15., 8.25, 1.5,
                        10.75, 4., 13.25, 6.5, 15.75,
                    ],
                ),
                None,
                f32s(&[4], &[1., 1., 0.6, 0.8]),
            ],
            vec![f32s(&[1, 1, 3, 3], &[0., 9.25, 11.75, 10., 3.25, 5.75, 4., 13.25, 15.75])],
            EXACT,
        ),
        case(
            "linear, align_corners, larger",
            node(
                "Resize",
                13,
                4,
                vec![string("mode", "linear"), string("coordinate_transformation_mode", "align_corners")],
            ),
            vec![
                f32s(&[1, 1, 2, 3], &[0., 9.25, 2.5, 11.75, 5., 14.25]),
                None,
                None,
                i64s(&[4], &[1, 1, 4, 5]),
            ],
            vec![f32s(
                &[1, 1, 4, 5],
                &[
                    0., 4.625, 9.25, 5.875, 2.5, 3.9166667, 5.875, 7.833333, 7.125, 6.4166665, 7.8333335,
                    7.125, 6.416667, 8.375, 10.333333, 11.75, 8.375, 5., 9.625, 14.25,
                ],
            )],
            CLOSE,
        ),
        case(
            "linear, align_corners, smaller",
            node(
                "Resize",
                13,
                3,
                vec![string("mode", "linear"), string("coordinate_transformation_mode", "align_corners")],
            ),
            vec![
                f32s(
                    &[1, 1, 5, 4],
                    &[
                        0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75, 10., 3.25, 12.5, 5.75, 15., 8.25, 1.5,
                        10.75, 4., 13.25, 6.5, 15.75,
                    ],
                ),
                None,
                f32s(&[4], &[1., 1., 0.6, 0.8]),
            ],
            vec![f32s(&[1, 1, 3, 3], &[0., 5.875, 11.75, 10., 7.875, 5.75, 4., 9.875, 15.75])],
            CLOSE,
        ),
        case(
            "cubic, align_corners, larger",
            node(
                "Resize",
                13,
                4,
                vec![string("mode", "cubic"), string("coordinate_transformation_mode", "align_corners")],
            ),
            vec![
                f32s(&[1, 1, 2, 3], &[0., 9.25, 2.5, 11.75, 5., 14.25]),
                None,
                None,
                i64s(&[4], &[1, 1, 4, 5]),
            ],
            vec![f32s(
                &[1, 1, 4, 5],
                &[
                    0., 5.2578125, 9.25, 6.7421875, 2.5, 3.699072, 5.9661436, 7.9120355, 7.450519, 6.1990714,
                    8.050925, 6.7994814, 6.3379674, 8.283857, 10.550926, 11.75, 7.5078125, 5., 8.9921875,
                    14.25,
                ],
            )],
            CLOSE,
        ),
        case(
            "cubic, align_corners, smaller",
            node(
                "Resize",
                13,
                3,
                vec![string("mode", "cubic"), string("coordinate_transformation_mode", "align_corners")],
            ),
            vec![
                f32s(
                    &[1, 1, 5, 4],
                    &[
                        0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75, 10., 3.25, 12.5, 5.75, 15., 8.25, 1.5,
                        10.75, 4., 13.25, 6.5, 15.75,
                    ],
                ),
                None,
                f32s(&[4], &[1., 1., 0.6, 0.8]),
            ],
            vec![f32s(&[1, 1, 3, 3], &[0., 5.875, 11.75, 10., 7.875, 5.75, 4., 9.875, 15.75])],
            CLOSE,
        ),
        case(
            "linear, align_corners, to one pixel",
            node(
                "Resize",
                13,
                4,
                vec![string("mode", "linear"), string("coordinate_transformation_mode", "align_corners")],
            ),
            vec![
                f32s(&[1, 1, 3, 4], &[0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75, 10., 3.25, 12.5, 5.75]),
                None,
                None,
                i64s(&[4], &[1, 1, 1, 1]),
            ],
            vec![f32s(&[1, 1, 1, 1], &[0.])],
            CLOSE,
        ),
        case(
            "nearest, asymmetric, larger",
            node(
                "Resize",
                13,
                4,
                vec![string("mode", "nearest"), string("coordinate_transformation_mode", "asymmetric")],
            ),
            vec![
                f32s(&[1, 1, 2, 3], &[0., 9.25, 2.5, 11.75, 5., 14.25]),
                None,
                None,
                i64s(&[4], &[1, 1, 4, 5]),
            ],
            vec![f32s(
                &[1, 1, 4, 5],
                &[
                    0., 9.25, 9.25, 2.5, 2.5, 0., 9.25, 9.25, 2.5, 2.5, 11.75, 5., 5., 14.25, 14.25, 11.75,
                    5., 5., 14.25, 14.25,
                ],
            )],
            EXACT,
        ),
        case(
            "nearest, asymmetric, smaller",
            node(
                "Resize",
                13,
                3,
                vec![string("mode", "nearest"), string("coordinate_transformation_mode", "asymmetric")],
            ),
            vec![
                f32s(
                    &[1, 1, 5, 4],
                    &[
                        0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75, 10., 3.25, 12.5, 5.75, 15., 8.25, 1.5,
                        10.75, 4., 13.25, 6.5, 15.75,
                    ],
                ),
                None,
                f32s(&[4], &[1., 1., 0.6, 0.8]),
            ],
            vec![f32s(&[1, 1, 3, 3], &[0., 9.25, 2.5, 10., 3.25, 12.5, 15., 8.25, 1.5])],
            EXACT,
        ),
        case(
            "linear, asymmetric, larger",
            node(
                "Resize",
                13,
                4,
                vec![string("mode", "linear"), string("coordinate_transformation_mode", "asymmetric")],
            ),
            vec![
                f32s(&[1, 1, 2, 3], &[0., 9.25, 2.5, 11.75, 5., 14.25]),
                None,
                None,
                i64s(&[4], &[1, 1, 4, 5]),
            ],
            vec![f32s(
                &[1, 1, 4, 5],
                &[
                    0., 5.55, 7.8999996, 3.8499994, 2.5, 5.875, 6.625, 7.375, 8.125, 8.375, 11.75, 7.7,
                    6.8500004, 12.400001, 14.25, 11.75, 7.7, 6.8500004, 12.400001, 14.25,
                ],
            )],
            CLOSE,
        ),
        case(
            "linear, asymmetric, smaller",
            node(
                "Resize",
                13,
                3,
                vec![string("mode", "linear"), string("coordinate_transformation_mode", "asymmetric")],
            ),
            vec![
                f32s(
                    &[1, 1, 5, 4],
                    &[
                        0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75, 10., 3.25, 12.5, 5.75, 15., 8.25, 1.5,
                        10.75, 4., 13.25, 6.5, 15.75,
                    ],
                ),
                None,
                f32s(&[4], &[1., 1., 0.6, 0.8]),
            ],
            vec![f32s(
                &[1, 1, 3, 3],
                &[0., 7.5625, 7.125, 8.333333, 7.895834, 7.458333, 11.333334, 8.229166, 7.791666],
            )],
            CLOSE,
        ),
        case(
            "cubic, asymmetric, larger",
            node(
                "Resize",
                13,
                4,
                vec![string("mode", "cubic"), string("coordinate_transformation_mode", "asymmetric")],
            ),
            vec![
                f32s(&[1, 1, 2, 3], &[0., 9.25, 2.5, 11.75, 5., 14.25]),
                None,
                None,
                i64s(&[4], &[1, 1, 4, 5]),
            ],
            vec![f32s(
                &[1, 1, 4, 5],
                &[
                    0., 6.3900003, 8.95, 3.9099991, 1.7709974, 5.875, 6.504998, 7.4650035, 8.1849985,
                    8.509998, 11.75, 6.619996, 5.980006, 12.459998, 15.249, 12.8515625, 6.641558, 5.701569,
                    13.26156, 16.512562,
                ],
            )],
            CLOSE,
        ),
        case(
            "cubic, asymmetric, smaller",
            node(
                "Resize",
                13,
                3,
                vec![string("mode", "cubic"), string("coordinate_transformation_mode", "asymmetric")],
            ),
            vec![
                f32s(
                    &[1, 1, 5, 4],
                    &[
                        0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75, 10., 3.25, 12.5, 5.75, 15., 8.25, 1.5,
                        10.75, 4., 13.25, 6.5, 15.75,
                    ],
                ),
                None,
                f32s(&[4], &[1., 1., 0.6, 0.8]),
            ],
            vec![f32s(
                &[1, 1, 3, 3],
                &[0., 8.371094, 6.4921875, 8.148148, 7.942851, 8.2792225, 12.092595, 7.8792005, 6.566265],
            )],
            CLOSE,
        ),
        case(
            "linear, asymmetric, to one pixel",
            node(
                "Resize",
                13,
                4,
                vec![string("mode", "linear"), string("coordinate_transformation_mode", "asymmetric")],
            ),
            vec![
                f32s(&[1, 1, 3, 4], &[0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75, 10., 3.25, 12.5, 5.75]),
                None,
                None,
                i64s(&[4], &[1, 1, 1, 1]),
            ],
            vec![f32s(&[1, 1, 1, 1], &[0.])],
            CLOSE,
        ),
        case(
            "nearest, half_pixel_symmetric, larger",
            node(
                "Resize",
                19,
                4,
                vec![
                    string("mode", "nearest"),
                    string("coordinate_transformation_mode", "half_pixel_symmetric"),
                ],
            ),
            vec![
                f32s(&[1, 1, 2, 3], &[0., 9.25, 2.5, 11.75, 5., 14.25]),
                None,
                None,
                i64s(&[4], &[1, 1, 4, 5]),
            ],
            vec![f32s(
                &[1, 1, 4, 5],
                &[
                    0., 0., 9.25, 2.5, 2.5, 0., 0., 9.25, 2.5, 2.5, 11.75, 11.75, 5., 14.25, 14.25, 11.75,
                    11.75, 5., 14.25, 14.25,
                ],
            )],
            EXACT,
        ),
        case(
            "nearest, half_pixel_symmetric, smaller",
            node(
                "Resize",
                19,
                3,
                vec![
                    string("mode", "nearest"),
                    string("coordinate_transformation_mode", "half_pixel_symmetric"),
                ],
            ),
            vec![
                f32s(
                    &[1, 1, 5, 4],
                    &[
                        0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75, 10., 3.25, 12.5, 5.75, 15., 8.25, 1.5,
                        10.75, 4., 13.25, 6.5, 15.75,
                    ],
                ),
                None,
                f32s(&[4], &[1., 1., 0.6, 0.8]),
            ],
            vec![f32s(&[1, 1, 3, 3], &[0., 9.25, 11.75, 10., 3.25, 5.75, 4., 13.25, 15.75])],
            EXACT,
        ),
        case(
            "linear, half_pixel_symmetric, larger",
            node(
                "Resize",
                19,
                4,
                vec![
                    string("mode", "linear"),
                    string("coordinate_transformation_mode", "half_pixel_symmetric"),
                ],
            ),
            vec![
                f32s(&[1, 1, 2, 3], &[0., 9.25, 2.5, 11.75, 5., 14.25]),
                None,
                None,
                i64s(&[4], &[1, 1, 4, 5]),
            ],
            vec![f32s(
                &[1, 1, 4, 5],
                &[
                    0., 3.7000003, 9.25, 5.2, 2.5, 2.9375, 5.0375, 8.1875, 6.5374994, 5.4375, 8.8125, 7.7125,
                    6.0625, 9.2125, 11.3125, 11.75, 9.05, 5., 10.55, 14.25,
                ],
            )],
            CLOSE,
        ),
        case(
            "linear, half_pixel_symmetric, smaller",
            node(
                "Resize",
                19,
                3,
                vec![
                    string("mode", "linear"),
                    string("coordinate_transformation_mode", "half_pixel_symmetric"),
                ],
            ),
            vec![
                f32s(
                    &[1, 1, 5, 4],
                    &[
                        0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75, 10., 3.25, 12.5, 5.75, 15., 8.25, 1.5,
                        10.75, 4., 13.25, 6.5, 15.75,
                    ],
                ),
                None,
                f32s(&[4], &[1., 1., 0.6, 0.8]),
            ],
            vec![f32s(
                &[1, 1, 3, 3],
                &[3.9791665, 7.541667, 7.1041665, 8.3125, 7.875, 7.437499, 8.645834, 8.208332, 11.770832],
            )],
            CLOSE,
        ),
        case(
            "cubic, half_pixel_symmetric, larger",
            node(
                "Resize",
                19,
                4,
                vec![
                    string("mode", "cubic"),
                    string("coordinate_transformation_mode", "half_pixel_symmetric"),
                ],
            ),
            vec![
                f32s(&[1, 1, 2, 3], &[0., 9.25, 2.5, 11.75, 5., 14.25]),
                None,
                None,
                i64s(&[4], &[1, 1, 4, 5]),
            ],
            vec![f32s(
                &[1, 1, 4, 5],
                &[
                    -2.289258, 3.6119924, 9.698242, 5.321993, 0.45074308, 2.1221108, 5.069609, 8.287109,
                    6.7796087, 4.8621116, 9.387895, 7.4703884, 5.9628906, 9.180388, 12.127896, 13.799263,
                    8.928004, 4.551758, 10.638003, 16.539265,
                ],
            )],
            CLOSE,
        ),
        case(
            "cubic, half_pixel_symmetric, smaller",
            node(
                "Resize",
                19,
                3,
                vec![
                    string("mode", "cubic"),
                    string("coordinate_transformation_mode", "half_pixel_symmetric"),
                ],
            ),
            vec![
                f32s(
                    &[1, 1, 5, 4],
                    &[
                        0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75, 10., 3.25, 12.5, 5.75, 15., 8.25, 1.5,
                        10.75, 4., 13.25, 6.5, 15.75,
                    ],
                ),
                None,
                f32s(&[4], &[1., 1., 0.6, 0.8]),
            ],
            vec![f32s(
                &[1, 1, 3, 3],
                &[3.8619466, 8.1713, 6.786208, 8.14551, 7.874998, 7.6044874, 8.96379, 7.5786967, 11.88805],
            )],
            CLOSE,
        ),
        case(
            "linear, half_pixel_symmetric, to one pixel",
            node(
                "Resize",
                19,
                4,
                vec![
                    string("mode", "linear"),
                    string("coordinate_transformation_mode", "half_pixel_symmetric"),
                ],
            ),
            vec![
                f32s(&[1, 1, 3, 4], &[0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75, 10., 3.25, 12.5, 5.75]),
                None,
                None,
                i64s(&[4], &[1, 1, 1, 1]),
            ],
            vec![f32s(&[1, 1, 1, 1], &[10.875])],
            CLOSE,
        ),
        case(
            "round_prefer_floor, larger",
            node(
                "Resize",
                13,
                4,
                vec![
                    string("mode", "nearest"),
                    string("coordinate_transformation_mode", "half_pixel"),
                    string("nearest_mode", "round_prefer_floor"),
                ],
            ),
            vec![
                f32s(&[1, 1, 3, 2], &[0., 9.25, 2.5, 11.75, 5., 14.25]),
                None,
                None,
                i64s(&[4], &[1, 1, 5, 4]),
            ],
            vec![f32s(
                &[1, 1, 5, 4],
                &[
                    0., 0., 9.25, 9.25, 0., 0., 9.25, 9.25, 2.5, 2.5, 11.75, 11.75, 5., 5., 14.25, 14.25, 5.,
                    5., 14.25, 14.25,
                ],
            )],
            EXACT,
        ),
        case(
            "round_prefer_floor, smaller",
            node(
                "Resize",
                13,
                4,
                vec![
                    string("mode", "nearest"),
                    string("coordinate_transformation_mode", "half_pixel"),
                    string("nearest_mode", "round_prefer_floor"),
                ],
            ),
            vec![
                f32s(
                    &[1, 1, 4, 6],
                    &[
                        0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75, 10., 3.25, 12.5, 5.75, 15., 8.25, 1.5,
                        10.75, 4., 13.25, 6.5, 15.75, 9., 2.25, 11.5, 4.75,
                    ],
                ),
                None,
                None,
                i64s(&[4], &[1, 1, 2, 4]),
            ],
            vec![f32s(&[1, 1, 2, 4], &[0., 2.5, 11.75, 14.25, 15., 1.5, 10.75, 13.25])],
            EXACT,
        ),
        case(
            "round_prefer_ceil, larger",
            node(
                "Resize",
                13,
                4,
                vec![
                    string("mode", "nearest"),
                    string("coordinate_transformation_mode", "half_pixel"),
                    string("nearest_mode", "round_prefer_ceil"),
                ],
            ),
            vec![
                f32s(&[1, 1, 3, 2], &[0., 9.25, 2.5, 11.75, 5., 14.25]),
                None,
                None,
                i64s(&[4], &[1, 1, 5, 4]),
            ],
            vec![f32s(
                &[1, 1, 5, 4],
                &[
                    0., 0., 9.25, 9.25, 0., 0., 9.25, 9.25, 2.5, 2.5, 11.75, 11.75, 5., 5., 14.25, 14.25, 5.,
                    5., 14.25, 14.25,
                ],
            )],
            EXACT,
        ),
        case(
            "round_prefer_ceil, smaller",
            node(
                "Resize",
                13,
                4,
                vec![
                    string("mode", "nearest"),
                    string("coordinate_transformation_mode", "half_pixel"),
                    string("nearest_mode", "round_prefer_ceil"),
                ],
            ),
            vec![
                f32s(
                    &[1, 1, 4, 6],
                    &[
                        0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75, 10., 3.25, 12.5, 5.75, 15., 8.25, 1.5,
                        10.75, 4., 13.25, 6.5, 15.75, 9., 2.25, 11.5, 4.75,
                    ],
                ),
                None,
                None,
                i64s(&[4], &[1, 1, 2, 4]),
            ],
            vec![f32s(&[1, 1, 2, 4], &[7.5, 10., 3.25, 5.75, 6.5, 9., 2.25, 4.75])],
            EXACT,
        ),
        case(
            "floor, larger",
            node(
                "Resize",
                13,
                4,
                vec![
                    string("mode", "nearest"),
                    string("coordinate_transformation_mode", "half_pixel"),
                    string("nearest_mode", "floor"),
                ],
            ),
            vec![
                f32s(&[1, 1, 3, 2], &[0., 9.25, 2.5, 11.75, 5., 14.25]),
                None,
                None,
                i64s(&[4], &[1, 1, 5, 4]),
            ],
            vec![f32s(
                &[1, 1, 5, 4],
                &[
                    0., 0., 0., 9.25, 0., 0., 0., 9.25, 2.5, 2.5, 2.5, 11.75, 2.5, 2.5, 2.5, 11.75, 5., 5.,
                    5., 14.25,
                ],
            )],
            EXACT,
        ),
        case(
            "floor, smaller",
            node(
                "Resize",
                13,
                4,
                vec![
                    string("mode", "nearest"),
                    string("coordinate_transformation_mode", "half_pixel"),
                    string("nearest_mode", "floor"),
                ],
            ),
            vec![
                f32s(
                    &[1, 1, 4, 6],
                    &[
                        0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75, 10., 3.25, 12.5, 5.75, 15., 8.25, 1.5,
                        10.75, 4., 13.25, 6.5, 15.75, 9., 2.25, 11.5, 4.75,
                    ],
                ),
                None,
                None,
                i64s(&[4], &[1, 1, 2, 4]),
            ],
            vec![f32s(&[1, 1, 2, 4], &[0., 9.25, 11.75, 5., 15., 8.25, 10.75, 4.])],
            EXACT,
        ),
        case(
            "ceil, larger",
            node(
                "Resize",
                13,
                4,
                vec![
                    string("mode", "nearest"),
                    string("coordinate_transformation_mode", "half_pixel"),
                    string("nearest_mode", "ceil"),
                ],
            ),
            vec![
                f32s(&[1, 1, 3, 2], &[0., 9.25, 2.5, 11.75, 5., 14.25]),
                None,
                None,
                i64s(&[4], &[1, 1, 5, 4]),
            ],
            vec![f32s(
                &[1, 1, 5, 4],
                &[
                    0., 9.25, 9.25, 9.25, 2.5, 11.75, 11.75, 11.75, 2.5, 11.75, 11.75, 11.75, 5., 14.25,
                    14.25, 14.25, 5., 14.25, 14.25, 14.25,
                ],
            )],
            EXACT,
        ),
        case(
            "ceil, smaller",
            node(
                "Resize",
                13,
                4,
                vec![
                    string("mode", "nearest"),
                    string("coordinate_transformation_mode", "half_pixel"),
                    string("nearest_mode", "ceil"),
                ],
            ),
            vec![
                f32s(
                    &[1, 1, 4, 6],
                    &[
                        0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75, 10., 3.25, 12.5, 5.75, 15., 8.25, 1.5,
                        10.75, 4., 13.25, 6.5, 15.75, 9., 2.25, 11.5, 4.75,
                    ],
                ),
                None,
                None,
                i64s(&[4], &[1, 1, 2, 4]),
            ],
            vec![f32s(&[1, 1, 2, 4], &[0.75, 10., 12.5, 5.75, 15.75, 9., 11.5, 4.75])],
            EXACT,
        ),
        case(
            "cubic, a of -0.5, outside excluded",
            node(
                "Resize",
                13,
                4,
                vec![string("mode", "cubic"), float("cubic_coeff_a", -0.5), int("exclude_outside", 1)],
            ),
            vec![
                f32s(&[1, 1, 3, 4], &[0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75, 10., 3.25, 12.5, 5.75]),
                None,
                None,
                i64s(&[4], &[1, 1, 5, 6]),
            ],
            vec![f32s(
                &[1, 1, 5, 6],
                &[
                    -0.9859096, 4.37264, 8.474402, 2.4370196, 7.2619324, 13.2681875, 0.8741693, 6.659131,
                    11.132184, 4.833405, 5.5166817, 7.9072556, 4.39145, 9.750001, 14.050927, 8.810187,
                    3.5294118, 0.30592087, 8.545024, 7.7205887, 7.79056, 10.951149, 7.2313447, 3.0125194,
                    10.90088, 6.017481, 3.296207, 11.917103, 9.918981, 5.68328,
                ],
            )],
            CLOSE,
        ),
        case(
            "linear, f16",
            node("Resize", 13, 3, vec![string("mode", "linear")]),
            vec![f16s(&[1, 1, 2, 2], &[0., 9.25, 2.5, 11.75]), None, f32s(&[4], &[1., 1., 1.5, 2.])],
            vec![f16s(
                &[1, 1, 3, 4],
                &[0., 2.3125, 6.9375, 9.25, 1.25, 3.5625, 8.1875, 10.5, 2.5, 4.8125, 9.4375, 11.75],
            )],
            CLOSE_F16,
        ),
        case(
            "axes 2 and 3",
            node("Resize", 18, 4, vec![string("mode", "linear"), ints("axes", &[2, 3])]),
            vec![
                f32s(&[1, 2, 2, 2], &[0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75]),
                None,
                None,
                i64s(&[2], &[3, 4]),
            ],
            vec![f32s(
                &[1, 2, 3, 4],
                &[
                    0., 2.3125, 6.9375, 9.25, 1.25, 3.5625, 8.1875, 10.5, 2.5, 4.8125, 9.4375, 11.75, 5.,
                    7.3125, 11.9375, 14.25, 6.25, 6.5625, 7.1875, 7.5, 7.5, 5.8125, 2.4375, 0.75,
                ],
            )],
            CLOSE,
        ),
        case(
            "axes in another order, negative",
            node("Resize", 18, 3, vec![ints("axes", &[3, -2])]),
            vec![f32s(&[1, 1, 2, 3], &[0., 9.25, 2.5, 11.75, 5., 14.25]), None, f32s(&[2], &[2., 1.5])],
            vec![f32s(
                &[1, 1, 3, 6],
                &[
                    0., 0., 9.25, 9.25, 2.5, 2.5, 0., 0., 9.25, 9.25, 2.5, 2.5, 11.75, 11.75, 5., 5., 14.25,
                    14.25,
                ],
            )],
            EXACT,
        ),
        case(
            "aspect not_larger",
            node(
                "Resize",
                18,
                4,
                vec![ints("axes", &[2, 3]), string("keep_aspect_ratio_policy", "not_larger")],
            ),
            vec![
                f32s(&[1, 1, 2, 4], &[0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75]),
                None,
                None,
                i64s(&[2], &[5, 6]),
            ],
            vec![f32s(
                &[1, 1, 3, 6],
                &[
                    0., 0., 9.25, 2.5, 2.5, 11.75, 0., 0., 9.25, 2.5, 2.5, 11.75, 5., 5., 14.25, 7.5, 7.5,
                    0.75,
                ],
            )],
            EXACT,
        ),
        case(
            "aspect not_smaller",
            node(
                "Resize",
                18,
                4,
                vec![ints("axes", &[2, 3]), string("keep_aspect_ratio_policy", "not_smaller")],
            ),
            vec![
                f32s(&[1, 1, 2, 4], &[0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75]),
                None,
                None,
                i64s(&[2], &[5, 6]),
            ],
            vec![f32s(
                &[1, 1, 5, 10],
                &[
                    0., 0., 0., 9.25, 9.25, 2.5, 2.5, 2.5, 11.75, 11.75, 0., 0., 0., 9.25, 9.25, 2.5, 2.5,
                    2.5, 11.75, 11.75, 0., 0., 0., 9.25, 9.25, 2.5, 2.5, 2.5, 11.75, 11.75, 5., 5., 5.,
                    14.25, 14.25, 7.5, 7.5, 7.5, 0.75, 0.75, 5., 5., 5., 14.25, 14.25, 7.5, 7.5, 7.5, 0.75,
                    0.75,
                ],
            )],
            EXACT,
        ),
        case(
            "opset 10, larger",
            node("Resize", 10, 2, vec![]),
            vec![f32s(&[1, 1, 2, 2], &[0., 9.25, 2.5, 11.75]), f32s(&[4], &[1., 1., 2., 3.])],
            vec![f32s(
                &[1, 1, 4, 6],
                &[
                    0., 0., 0., 9.25, 9.25, 9.25, 0., 0., 0., 9.25, 9.25, 9.25, 2.5, 2.5, 2.5, 11.75, 11.75,
                    11.75, 2.5, 2.5, 2.5, 11.75, 11.75, 11.75,
                ],
            )],
            EXACT,
        ),
        case(
            "opset 10, smaller takes the one after",
            node("Resize", 10, 2, vec![]),
            vec![
                f32s(&[1, 1, 2, 4], &[0., 9.25, 2.5, 11.75, 5., 14.25, 7.5, 0.75]),
                f32s(&[4], &[1., 1., 0.6, 0.6]),
            ],
            vec![f32s(&[1, 1, 1, 2], &[0., 2.5])],
            EXACT,
        ),
        case(
            "opset 10, linear",
            node("Resize", 10, 2, vec![string("mode", "linear")]),
            vec![f32s(&[1, 1, 2, 3], &[0., 9.25, 2.5, 11.75, 5., 14.25]), f32s(&[4], &[1., 1., 2., 2.])],
            vec![f32s(
                &[1, 1, 4, 6],
                &[
                    0., 4.625, 9.25, 5.875, 2.5, 2.5, 5.875, 6.5, 7.125, 7.75, 8.375, 8.375, 11.75, 8.375,
                    5., 9.625, 14.25, 14.25, 11.75, 8.375, 5., 9.625, 14.25, 14.25,
                ],
            )],
            CLOSE,
        ),
        case(
            "Upsample",
            node("Upsample", 9, 2, vec![string("mode", "nearest")]),
            vec![f32s(&[1, 1, 2, 2], &[0., 9.25, 2.5, 11.75]), f32s(&[4], &[1., 1., 2., 3.])],
            vec![f32s(
                &[1, 1, 4, 6],
                &[
                    0., 0., 0., 9.25, 9.25, 9.25, 0., 0., 0., 9.25, 9.25, 9.25, 2.5, 2.5, 2.5, 11.75, 11.75,
                    11.75, 2.5, 2.5, 2.5, 11.75, 11.75, 11.75,
                ],
            )],
            EXACT,
        ),
        case(
            "Upsample, linear",
            node("Upsample", 9, 2, vec![string("mode", "linear")]),
            vec![f32s(&[1, 1, 2, 2], &[0., 9.25, 2.5, 11.75]), f32s(&[4], &[1., 1., 2., 2.])],
            vec![f32s(
                &[1, 1, 4, 4],
                &[
                    0., 4.625, 9.25, 9.25, 1.25, 5.875, 10.5, 10.5, 2.5, 7.125, 11.75, 11.75, 2.5, 7.125,
                    11.75, 11.75,
                ],
            )],
            CLOSE,
        ),
    ]
}
