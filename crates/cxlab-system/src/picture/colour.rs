//! Colours of utilization.

/// From idle (grey) over blue and orange to saturated (red). Busy links are drawn wider and cells of heat maps have their
/// number in them, so that the picture can be read without colours too.
pub(super) fn of_utilization(utilization: f64) -> String {
    let [red, green, blue] = rgb(utilization);
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Black or white, whichever can be read on the colour of a utilization.
pub(super) fn of_text_on(utilization: f64) -> &'static str {
    let [red, green, blue] = rgb(utilization).map(|channel| channel as f64 / 255.0);
    // Luminance of Rec. 709, whose gamma is about 2.2.
    let light = |value: f64| libm::pow(value, 2.2);
    let luminance = 0.2126 * light(red) + 0.7152 * light(green) + 0.0722 * light(blue);
    match luminance > 0.25 {
        true => "#101418",
        false => "#ffffff",
    }
}

fn rgb(utilization: f64) -> [i32; 3] {
    let stops = [
        (0.0, [173, 181, 189]),
        (0.35, [13, 110, 253]),
        (0.7, [253, 126, 20]),
        (1.0, [214, 30, 48]),
    ];
    let value = utilization.clamp(0.0, 1.0);
    for pair in stops.windows(2) {
        if value <= pair[1].0 {
            let share = (value - pair[0].0) / (pair[1].0 - pair[0].0);
            let mix = |channel: usize| {
                let (from, to) = (f64::from(pair[0].1[channel]), f64::from(pair[1].1[channel]));
                (from + (to - from) * share).round() as i32
            };
            return [mix(0), mix(1), mix(2)];
        }
    }
    stops[3].1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_the_scale_are_grey_and_red() {
        assert_eq!(of_utilization(0.0), "#adb5bd");
        assert_eq!(of_utilization(1.0), "#d61e30");
        assert_eq!(of_utilization(7.0), of_utilization(1.0));
        assert_eq!((of_text_on(0.0), of_text_on(1.0)), ("#101418", "#ffffff"));
    }
}
