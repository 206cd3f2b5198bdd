/* save: the guest may be saved here, and restored. It waits until cxlab lets it go on. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
    const char *hold = "@cxlab hold\n";
    char one = 0;
    int line = open("/dev/ttyS0", O_RDWR | O_NOCTTY);
    if (line < 0 || write(line, hold, strlen(hold)) < 0) {
        perror("save");
        return 1;
    }
    while (one != '\n' && read(line, &one, 1) == 1)
        ;
    return one != '\n';
}
