# Writes the output of a sandbox (its standard output and error) to <dir>/agent.log, within a limit, and releases its disk image
# when the sandbox has ended. One process per sandbox, outside of it, started by the shell lines of storage.ts:
#
#   keeper.pl <dir> <bytes> [<mount point of the image>]
#
# What is said faster than the disk should be written to is read and left out: a sandbox that waits for its output would stand still.
#
# Standard input is the pipe with the output. It outlives a killed service, as the sandbox does, and exits when the last process has closed the pipe.
use strict;
use warnings;

# EXT4_IOC_SHUTDOWN of linux/ext4.h, with EXT4_GOING_FLAGS_NOLOGFLUSH.
use constant SHUTDOWN => 0x8004587d;
use constant NO_FLUSH => 2;

# So many bytes in each second, after half of the limit at once.
use constant RATE => 64 * 1024;

my ($dir, $max, $mount) = @ARGV;
$0 = "cob-keeper $dir";

open my $pid, '>', "$dir/keeper" or die "keeper: $dir/keeper: $!\n";
print $pid $$;
close $pid;

my $image;
if (defined $mount) { open $image, '<', $mount or die "keeper: $mount: $!\n" }
open STDOUT, '>', '/dev/null';
open STDERR, '>', '/dev/null';

# Log rotation with two files, each of half the size: the newest lines are worth more than the oldest.
my ($log, $size);
sub begin {
    open $log, '>>', "$dir/agent.log" or undef $log;
    $size = defined $log ? -s $log : 0;
}
begin();
my ($room, $since, $left_out) = ($max / 2, time, 0);
while (sysread STDIN, my $bytes, 65536) {
    my $now = time;
    $room += ($now - $since) * RATE if $now > $since;
    $room = $max / 2 if $room > $max / 2;
    $since = $now;
    if (length $bytes > $room) {
        $left_out += length $bytes;
        next;
    }
    $room -= length $bytes;
    $bytes = "\n[$left_out bytes were said too fast and are left out]\n$bytes" if $left_out;
    $left_out = 0;
    if ($size + length $bytes > $max / 2) {
        rename "$dir/agent.log", "$dir/agent.log.1";
        begin();
    }
    # On a full disk the text is lost, but reading continues: a sandbox must not block on its output.
    if (defined $log) { $size += syswrite($log, $bytes) // 0 }
}

# The session has ended and its files are not needed. Without this, the kernel would write the last changes to the disk first.
if (defined $image) {
    my $flags = pack 'L', NO_FLUSH;
    ioctl $image, SHUTDOWN, $flags;
    close $image;
}
