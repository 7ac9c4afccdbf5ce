# Keeps what a sandbox says (its standard output and error) in <dir>/agent.log, bounded, and lets go of its disk image when the
# sandbox has ended. One process for each sandbox, outside of it, started by the shell lines of storage.ts:
#
#   keeper.pl <dir> <bytes> [<mount point of the image>]
#
# It outlives a service that is killed, as the sandbox does, and ends by itself when no process holds the pipe any more.
use strict;
use warnings;

# EXT4_IOC_SHUTDOWN of linux/ext4.h, with EXT4_GOING_FLAGS_NOLOGFLUSH.
use constant SHUTDOWN => 0x8004587d;
use constant NO_FLUSH => 2;

my ($dir, $max, $mount) = @ARGV;
$0 = "cob-keeper $dir";

open my $pid, '>', "$dir/keeper" or die "keeper: $dir/keeper: $!\n";
print $pid $$;
close $pid;

my $image;
if (defined $mount) { open $image, '<', $mount or die "keeper: $mount: $!\n" }
open my $said, '<', "$dir/said" or die "keeper: $dir/said: $!\n";
open STDOUT, '>', '/dev/null';
open STDERR, '>', '/dev/null';

# The newest bytes are worth more than the oldest: two files take turns, each of half the size.
my ($log, $size);
sub begin {
    open $log, '>>', "$dir/agent.log" or undef $log;
    $size = defined $log ? -s $log : 0;
}
begin();
while (sysread $said, my $bytes, 65536) {
    if ($size + length $bytes > $max / 2) {
        rename "$dir/agent.log", "$dir/agent.log.1";
        begin();
    }
    # A disk that is full costs the text, and never stops the reading: a sandbox must not wait for us.
    if (defined $log) { $size += syswrite($log, $bytes) // 0 }
}

# The session is over and its files with it: without this, the last writes would be brought to the disk first.
if (defined $image) {
    my $flags = pack 'L', NO_FLUSH;
    ioctl $image, SHUTDOWN, $flags;
    close $image;
}
