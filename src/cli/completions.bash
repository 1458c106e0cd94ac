
# Bash divides words at `:`, of which IPv6 addresses have some, and at `=`. Here they are whole again, and of each answer
# only what is behind the last of these is given back.
_ipgc() {
    local line=$COMP_LINE last=-1 cword=0 at before word whole words=()
    for at in "${!COMP_WORDS[@]}"; do
        word=${COMP_WORDS[at]} before=
        if [[ $last -ge 0 && $line != [[:space:]]* && ( $word == [:=]* || ${words[last]} == *[:=] ) ]]; then
            before=${words[last]}
        else
            last=$((last + 1))
        fi
        words[last]=$before$word
        line=${line#*"$word"}
        if [[ $at == "$COMP_CWORD" ]]; then
            cword=$last whole=$before$2
            if [[ $word == [:=]* ]]; then whole=$before$word; fi
        fi
    done
    local COMP_WORDS=("${words[@]}") COMP_CWORD=$cword
    _clap_complete_ipgc "$1" "$whole" "$3"
    for at in "${!COMPREPLY[@]}"; do
        COMPREPLY[at]=${COMPREPLY[at]#"${whole%"$2"}"}
    done
}
