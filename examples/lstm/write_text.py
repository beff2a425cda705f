#!/usr/bin/env python3
"""Writes little stories by a grammar: a text whose next character needs more than the last one to guess.

usage: write_text.py [CHARACTERS] [SEED] > text.txt

Who acts in a story stays the same from its first sentence to its last, verbs agree in number, and what is counted is
added up right: all that lies further back than one character.
"""
import random
import sys

PEOPLE = {"she": "Anna Berta Clara Dora Edith".split(), "he": "Anton Bruno Conrad Daniel Emil".split()}
ANIMALS = "cat dog hen goat duck horse rabbit mouse".split()
THINGS = "apple stone coin candle button feather shell walnut".split()
PLACES = "the river|the old mill|the market|the garden|the harbour|the forest|the bridge".split("|")
MOODS = "slowly|quietly|gladly|quickly|carefully|at once".split("|")
NUMBERS = ("no one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
           "eighteen").split()


def plural(noun):
    return "mice" if noun == "mouse" else noun + "s"


def counted(number, noun):
    return f"{NUMBERS[number]} {noun if number == 1 else plural(noun)}"


def walk(rng, name, _):
    return f"{name} walked {rng.choice(MOODS)} to {rng.choice(PLACES)}."


def meet(rng, name, pronoun):
    animal, number = rng.choice(ANIMALS), rng.randint(1, 9)
    verb = "was" if number == 1 else "were"
    object = "it" if number == 1 else "them"
    return f"There {verb} {counted(number, animal)} by {rng.choice(PLACES)}, and {pronoun} fed {object} {rng.choice(MOODS)}."


def count(rng, name, pronoun):
    thing, first, second = rng.choice(THINGS), rng.randint(1, 9), rng.randint(1, 9)
    return (f"{name} had {counted(first, thing)} and found {counted(second, thing)}, so {pronoun} had "
            f"{counted(first + second, thing)}.")


def say(rng, name, pronoun):
    return f'"{rng.choice(["Good day", "Come here", "Wait for me", "Look at that"])}!" said {name}, and {pronoun} smiled.'


def story(rng):
    pronoun = rng.choice(sorted(PEOPLE))
    name = rng.choice(PEOPLE[pronoun])
    sentences = [rng.choice((walk, meet, count, say))(rng, name, pronoun) for _ in range(rng.randint(3, 6))]
    return " ".join(sentences) + f" That was the story of {name}.\n"


def main():
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 400_000
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    written = 0
    while written < size:
        text = story(rng)[:size - written]
        sys.stdout.write(text)
        written += len(text)


if __name__ == "__main__":
    main()
