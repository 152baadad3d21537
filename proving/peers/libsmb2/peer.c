/* Debian's libsmb2 as a client: PORT SHARE USER PASSWORD (see ../run.py). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <smb2/smb2.h>
#include <smb2/libsmb2.h>

/* Nothing, one byte, around the credit and the multi-credit boundaries, and more than one request holds. */
static const size_t SIZES[] = {0, 1, 65535, 65537, (1 << 20) + 3, (9 << 20) + 1};
#define COUNT (sizeof SIZES / sizeof *SIZES)
#define PIECE (1 << 20)
/* SMB2_SEC_NTLMSSP, which no header of the library has. */
#define SEC_NTLMSSP 1

static struct smb2_context *smb2;
static int failures;

static void verdict(const char *name, const char *why)
{
    if (why != NULL) {
        failures++;
        printf("FAIL %s: %s (%s)\n", name, why, smb2_get_error(smb2));
    } else {
        printf("PASS %s\n", name);
    }
    fflush(stdout);
}

static uint8_t byte_at(size_t size, size_t at)
{
    return (uint8_t)((at * 2654435761u + size) >> 13);
}

static const char *put(const char *path, size_t size, uint8_t *room)
{
    struct smb2fh *file = smb2_open(smb2, path, O_WRONLY | O_CREAT);
    if (file == NULL)
        return "it cannot be made";
    for (size_t at = 0; at < size; at++)
        room[at] = byte_at(size, at);
    for (size_t done = 0; done < size;) {
        size_t left = size - done;
        int count = smb2_write(smb2, file, room + done, left < PIECE ? left : PIECE);
        if (count <= 0)
            return "it cannot be written";
        done += count;
    }
    return smb2_close(smb2, file) < 0 ? "it cannot be closed" : NULL;
}

static const char *get(const char *path, size_t size, uint8_t *room)
{
    struct smb2fh *file = smb2_open(smb2, path, O_RDONLY);
    if (file == NULL)
        return "it cannot be opened";
    size_t done = 0;
    for (int count; (count = smb2_read(smb2, file, room + done, PIECE)) != 0; done += count) {
        if (count < 0)
            return "it cannot be read";
        if (done + count > size)
            return "it is longer than what was written";
    }
    smb2_close(smb2, file);
    if (done != size)
        return "it is shorter than what was written";
    for (size_t at = 0; at < size; at++)
        if (room[at] != byte_at(size, at))
            return "it says something else than what was written";
    return NULL;
}

static const char *list(void)
{
    struct smb2dir *directory = smb2_opendir(smb2, "libsmb2");
    if (directory == NULL)
        return "the directory cannot be opened";
    size_t found = 0;
    for (struct smb2dirent *entry; (entry = smb2_readdir(smb2, directory)) != NULL;)
        for (size_t at = 0; at < COUNT; at++) {
            char name[32];
            snprintf(name, sizeof name, "size-%zu", SIZES[at]);
            found += strcmp(entry->name, name) == 0 && entry->st.smb2_size == SIZES[at];
        }
    smb2_closedir(smb2, directory);
    return found == COUNT ? NULL : "names or sizes are missing";
}

static const char *rename_file(void)
{
    struct smb2_stat_64 st;
    if (smb2_rename(smb2, "libsmb2/size-1", "r") < 0)
        return "to one letter";
    if (smb2_rename(smb2, "r", "libsmb2/renamed") < 0)
        return "and back";
    if (smb2_stat(smb2, "libsmb2/renamed", &st) < 0 || st.smb2_size != 1)
        return "the new name is not there";
    return smb2_stat(smb2, "libsmb2/size-1", &st) == -ENOENT ? NULL : "the old name is there";
}

static const char *remove_all(void)
{
    for (size_t at = 0; at < COUNT; at++) {
        char name[64];
        snprintf(name, sizeof name, SIZES[at] == 1 ? "libsmb2/renamed" : "libsmb2/size-%zu", SIZES[at]);
        if (smb2_unlink(smb2, name) < 0)
            return name[8] == 'r' ? "the renamed file" : "a file";
    }
    return smb2_rmdir(smb2, "libsmb2") < 0 ? "the directory" : NULL;
}

int main(int count, char **words)
{
    if (count != 5)
        return 2;
    char server[32], name[64];
    uint8_t *room = malloc((9 << 20) + 1 + PIECE);
    smb2 = smb2_init_context();
    if (room == NULL || smb2 == NULL)
        return 2;
    snprintf(server, sizeof server, "127.0.0.1:%s", words[1]);
    smb2_set_timeout(smb2, 60);
    smb2_set_password(smb2, words[4]);
    smb2_set_authentication(smb2, SEC_NTLMSSP);
    smb2_set_security_mode(smb2, SMB2_NEGOTIATE_SIGNING_ENABLED);
    if (strcmp(words[2], "sealed") == 0)
        smb2_set_seal(smb2, 1);
    verdict("connect", smb2_connect_share(smb2, server, words[2], words[3]) < 0 ? "refused" : NULL);
    if (failures)
        return 1;
    verdict("make a directory", smb2_mkdir(smb2, "libsmb2") < 0 ? "refused" : NULL);
    for (size_t at = 0; at < COUNT; at++) {
        snprintf(name, sizeof name, "libsmb2/size-%zu", SIZES[at]);
        const char *why = put(name, SIZES[at], room);
        if (why == NULL)
            why = get(name, SIZES[at], room);
        snprintf(name, sizeof name, "%zu bytes there and back", SIZES[at]);
        verdict(name, why);
    }
    verdict("list", list());
    verdict("rename", rename_file());
    verdict("a missing file", smb2_open(smb2, "libsmb2/nothing", O_RDONLY) != NULL ? "it was opened" : NULL);
    verdict("remove a tree", remove_all());
    verdict("disconnect", smb2_disconnect_share(smb2) < 0 ? "refused" : NULL);
    free(room);
    return failures ? 1 : 0;
}
