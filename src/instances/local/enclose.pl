# The last step before bwrap: drops what the sandbox must not inherit. In Perl, because neither Node nor a shell can make these system calls, and
# because it starts in 2 ms. Arguments: the name of bwrap, the number of keyctl(2) on this machine, the file of the system call filter (may be
# empty), how many of the next arguments are bwrap's options, the options, a line for the shell inside, its arguments.
use strict;    # no warnings: they double the 2 ms that Perl takes to start

my ($name, $keyctl, $filter, $count, @rest) = @ARGV;
my @options = splice(@rest, 0, $count);
my $line = shift @rest;

# A new, empty session keyring (KEYCTL_JOIN_SESSION_KEYRING). The service's keyring may hold keys of the user who started it.
my $none = 0;
if (syscall($keyctl, 1, $none) < 0 && $! != 38) { die "keyctl: $!\n" }    # 38: a kernel without keyrings

# Every descriptor but the standard three (close_range(2), 436 everywhere). A shell or a service manager may have left any open.
if (syscall(436, 3, 0x7fffffff, 0) < 0) {
    opendir(my $open, '/proc/self/fd') or die "/proc/self/fd: $!\n";
    my @numbers = grep { /^\d+$/ && $_ > 2 } readdir $open;
    closedir $open;
    require POSIX;
    POSIX::close($_) for @numbers;
}

# The listening socket becomes descriptor 3, which only the command inside gets. Bwrap keeps the standard three also as process 1 of the sandbox,
# and every program in there can read its memory and descriptors.
$^F = 255;    # descriptors that are opened from here on are inherited
open(my $listener, '<&', \*STDIN) or die "standard input: $!\n";
die "the listening socket is not descriptor 3\n" unless fileno $listener == 3;
open(STDIN, '<', '/dev/null') or die "/dev/null: $!\n";
my @kept;

# The keys of a program that is reached by TCP (base/access.ts). Like the listening socket they go to the command inside only, there as descriptor 3.
# No command line shows them.
my $keys = '3<&-';
if (defined $ENV{COB_KEYS}) {
    pipe(my $read, my $write) or die "pipe: $!\n";
    die "the keys are not descriptor 4\n" unless fileno $read == 4;
    syswrite($write, "$ENV{COB_KEYS}\n") or die "pipe: $!\n";
    close $write;
    push @kept, $read;
    $keys = '3<&4 4<&-';
}

my ($bwrap) = grep { -x } map { "$_/$name" } split(/:/, $ENV{PATH} // '/usr/bin:/bin');
die "$name: not found in PATH\n" unless defined $bwrap;

# Bwrap reads these options from descriptors. So neither its command line nor its environment shows a path of this machine: inside, bwrap is
# process 1, which every program there can inspect.
my @hidden;
if (-s $filter) {
    open(my $program, '<', $filter) or die "$filter: $!\n";
    push @hidden, '--seccomp', fileno $program;
    push @kept, $program;
}
pipe(my $read, my $write) or die "pipe: $!\n";
my $text = join('', map { "$_\0" } @options);
die "bwrap's options are longer than a pipe takes\n" if length $text > 65536;
syswrite($write, $text) == length $text or die "pipe: $!\n";
close $write;
%ENV = ();
exec { $bwrap } $name, '--args', fileno $read, @hidden, '--', '/bin/sh', '-c', "exec <&3 $keys\n$line", 'sh', @rest or die "$bwrap: $!\n";
