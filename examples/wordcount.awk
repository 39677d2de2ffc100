# Counts words, in small letters: "word number", one a line.
{
    gsub(/[^A-Za-z]+/, " ")
    for (i = 1; i <= NF; i++) count[tolower($i)]++
}
END { for (word in count) print word, count[word] }
