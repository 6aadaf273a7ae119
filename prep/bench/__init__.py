"""Measure, on the user's own videos, what each step of an extraction costs and how near it comes to the limit.

clips.py      which videos, and how often
steps.py      what is measured on one video
sampled.py    clips for training straight from the video, and whether their frames are the right ones
process.py    a process that runs one step at a time, with its clock
rows.py       the rows of the table
measure.py    all rows in turn, several rounds
table.py      from samples to figures and text
"""
