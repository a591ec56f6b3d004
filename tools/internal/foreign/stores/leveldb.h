#ifndef BLOOMKV_FOREIGN_LEVELDB_H
#define BLOOMKV_FOREIGN_LEVELDB_H

#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

struct store;

// store_open returns NULL and sets err, which the caller frees, if the store cannot be opened.
struct store *store_open(const char *dir, int bits, size_t block, int snappy, char **err);
void store_close(struct store *s);

// store_put returns 0 if the key cannot be written.
int store_put(struct store *s, const char *key, size_t n, const char *value, size_t m);

// store_maybe looks a key up and returns 1 if the filter let the lookup through, 0 if it denied the key, and -1 if it
// was not asked.
int store_maybe(struct store *s, const char *key, size_t n);

#ifdef __cplusplus
}
#endif

#endif
