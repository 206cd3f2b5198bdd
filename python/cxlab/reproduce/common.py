"""Colours that all papers share."""

# Okabe and Ito's colours, which colour-blind readers can distinguish.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#000000",
)
