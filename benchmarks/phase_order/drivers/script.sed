# Count words and reverse lines.
1!G
h
$!d
s/\([a-z]*\) \([a-z]*\)/\2-\1/g
y/abc/ABC/
s/[0-9]\{2,\}/<&>/g
/store/{
s/^/[/
s/$/]/
}
:again
s/\(B\)\(r\)/\2\1/
t again
l 60
