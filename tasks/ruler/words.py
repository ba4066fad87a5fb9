"""Sixty plain words of four to seven letters, none of which is part of another, or of what prompts say around them."""

WORDS = (
    *(
        "coal",
        "drum",
        "fern",
        "gull",
        "harp",
        "jade",
        "kite",
        "lamp",
        "moss",
        "oboe",
        "plum",
        "tusk",
        "veil",
        "wolf",
        "yarn",
    ),
    *("bison", "cedar", "delta", "flute", "grape", "hazel", "igloo", "kayak", "lemon"),
    *("mango", "nylon", "olive", "ozone", "pearl", "quilt"),
    *("anchor", "bamboo", "canyon", "dragon", "falcon", "garlic", "hammer", "island", "jacket", "lagoon"),
    *("magnet", "nickel", "orchid", "pepper", "rabbit"),
    *("almanac", "blanket", "compass", "dolphin", "emerald", "feather", "giraffe", "harvest", "lantern", "mustard"),
    *("octopus", "penguin", "sparrow", "thimble", "volcano"),
)
