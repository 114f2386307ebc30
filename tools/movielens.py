"""Writes the ratings of MovieLens as tables: movielens.py RDATA DIRECTORY, where RDATA.rdx and RDATA.rdb are the lazy-load
database of R's package dslabs (tools/rdata.py).

ratings.csv has a row for each rating, in the order of the package. Users, movies and genres are numbered from 0 in the
order of their ids or names, so that each number is a row of a table. A movie's genre is the first of its list.
movies.csv and genres.csv say what the numbers mean. Where the year of a movie is unknown, ratings.csv has the median.
"""
import csv
import pathlib
import statistics
import sys

import rdata

RATINGS = 100004


def numbered(values):
    """Each distinct value's place in their order."""
    return {value: number for number, value in enumerate(sorted(set(values)))}


def write(path, header, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def main():
    (table,) = rdata.read(sys.argv[1], ["movielens"])
    into = pathlib.Path(sys.argv[2])
    if len(table["rating"]) != RATINGS:
        raise ValueError(f"{len(table['rating'])} ratings, not {RATINGS}")
    first_genres = [genres.split("|")[0] for genres in table["genres"]]
    users, movies, genres = numbered(table["userId"]), numbered(table["movieId"]), numbered(first_genres)
    unknown = (rdata.MISSING, None)
    median = int(statistics.median(year for year in table["year"] if year not in unknown))
    years = [median if year in unknown else year for year in table["year"]]
    write(into / "ratings.csv", ["user", "movie", "genre", "year", "timestamp", "rating"],
          ([users[user], movies[movie], genres[genre], year, timestamp, rating]
           for user, movie, genre, year, timestamp, rating in zip(
               table["userId"], table["movieId"], first_genres, years, table["timestamp"], table["rating"])))
    titles = {movie: (title, all_genres)
              for movie, title, all_genres in zip(table["movieId"], table["title"], table["genres"])}
    write(into / "movies.csv", ["movie", "movie_id", "title", "genres"],
          ([number, movie, *titles[movie]] for movie, number in movies.items()))
    write(into / "genres.csv", ["genre", "name"], ([number, name] for name, number in genres.items()))


if __name__ == "__main__":
    try:
        main()
    except rdata.ERRORS as problem:
        sys.exit(f"error: cannot read {sys.argv[1]}: {problem}")
