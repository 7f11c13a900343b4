#include "text.h"

/* The amalgamation is compiled without its header next to it. */
typedef struct sqlite3 sqlite3;
int sqlite3_open(const char *, sqlite3 **);
int sqlite3_exec(sqlite3 *, const char *, int (*)(void *, int, char **, char **), void *, char **);
int sqlite3_close(sqlite3 *);

static int show(void *data, int count, char **values, char **names) {
  (void)data, (void)names;
  for (int i = 0; i < count; ++i) printf("%s|", values[i] ? values[i] : "NULL");
  puts("");
  return 0;
}

static const char *const statements[] = {
    "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b REAL); CREATE INDEX i ON t(b, a);",
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 3000) INSERT INTO t "
    "SELECT x, printf('%08x-%s', x * 7919, hex(x)), x * 0.37 FROM n;",
    "SELECT count(*), sum(b), min(a), max(a), group_concat(id) FROM t WHERE b BETWEEN 100 AND 110;",
    "DELETE FROM t WHERE id % 3 = 0; UPDATE t SET a = upper(a) || 'x' WHERE id % 5 = 1;",
    "SELECT substr(a, 1, 2) k, count(*), avg(b) FROM t GROUP BY k HAVING count(*) > 5 ORDER BY 2 DESC, k LIMIT 9;",
    "PRAGMA integrity_check; SELECT x.id, y.a FROM t x JOIN t y ON y.id = x.id * 2 ORDER BY x.b DESC LIMIT 5;",
    "SELECT * FROM missing;",
};

int main(void) {
  sqlite3 *database;
  printf("%d\n", sqlite3_open(":memory:", &database));
  for (unsigned i = 0; i < sizeof statements / sizeof *statements; ++i) {
    char *error = NULL;
    printf("%d\n", sqlite3_exec(database, statements[i], show, NULL, &error));
    if (error) puts(error);
  }
  printf("%d\n", sqlite3_close(database));
  return 0;
}
