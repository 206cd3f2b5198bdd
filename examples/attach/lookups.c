/* Fills a table in memory and looks up rows by a column with an index (docs/guide/attach.md).
 *
 *     lookups ROWS [INDEX]
 *
 * INDEX says when the index is made: "first" (the default), or "last", when all rows are there.
 * Build with SQLite's amalgamation: cc -O2 -g lookups.c sqlite3.c -lpthread -ldl -lm
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sqlite3.h"

static void run(sqlite3 *base, const char *text) {
    char *why = NULL;
    if (sqlite3_exec(base, text, NULL, NULL, &why)) {
        fprintf(stderr, "%s: %s\n", text, why);
        exit(1);
    }
}

int main(int count, char **words) {
    long rows = count > 1 ? atol(words[1]) : 400000, lookups = 2 * rows / 5;
    int last = count > 2 && !strcmp(words[2], "last");
    const char *index = "create index by_b on rows (b)";
    sqlite3 *base;
    sqlite3_stmt *insert, *find;
    if (rows < 1 || sqlite3_open(":memory:", &base)) return 1;
    run(base, "create table rows (a integer primary key, b integer, c text)");
    if (!last) run(base, index);
    run(base, "begin");
    sqlite3_prepare_v2(base, "insert into rows values (?, ?, 'some text of a row that is not short')", -1, &insert, NULL);
    for (long at = 0; at < rows; at++) {
        sqlite3_bind_int64(insert, 1, at);
        sqlite3_bind_int64(insert, 2, at * 7919 % rows);
        sqlite3_step(insert);
        sqlite3_reset(insert);
    }
    run(base, "commit");
    if (last) run(base, index);
    uint64_t state = 1;
    long sum = 0;
    sqlite3_prepare_v2(base, "select a from rows where b = ?", -1, &find, NULL);
    for (long at = 0; at < lookups; at++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        sqlite3_bind_int64(find, 1, (state >> 33) % rows);
        if (sqlite3_step(find) == SQLITE_ROW) sum += sqlite3_column_int64(find, 0);
        sqlite3_reset(find);
    }
    printf("%ld\n", sum);
    return 0;
}
