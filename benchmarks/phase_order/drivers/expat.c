#include "expat.h"
#include "text.h"

static int depth;

static void XMLCALL start(void *data, const XML_Char *name, const XML_Char **attributes) {
  (void)data;
  printf("%*s<%s", 2 * depth++, "", name);
  for (; *attributes; attributes += 2) printf(" %s=%s", attributes[0], attributes[1]);
  puts(">");
}

static void XMLCALL end(void *data, const XML_Char *name) {
  (void)data;
  printf("%*s</%s>\n", 2 * --depth, "", name);
}

static void XMLCALL characters(void *data, const XML_Char *text, int size) {
  (void)data;
  printf("%.*s|\n", size, text);
}

static const char *const documents[] = {
    "<?xml version='1.0' encoding='UTF-8'?><!DOCTYPE a [<!ENTITY e 'an &amp; entity'><!ATTLIST b c CDATA 'd'>"
    "<!ELEMENT a (b|c)*>]><a xmlns:n='urn:n'><b>text &e; &#65;&lt;</b><n:c n:d='1&#x42;'/><!-- note -->"
    "<![CDATA[raw <b>]]><?target data?></a>",
    "<a><b></a>",
    "<a>\xff</a>",
    "<a x='1' x='2'/>",
};

int main(void) {
  for (unsigned i = 0; i < sizeof documents / sizeof *documents; ++i) {
    XML_Parser parser = XML_ParserCreateNS(NULL, ':');
    depth = 0;
    XML_SetHashSalt(parser, 20);
    XML_SetElementHandler(parser, start, end);
    XML_SetCharacterDataHandler(parser, characters);
    int size = (int)strlen(documents[i]);
    for (int at = 0; at < size; at += 7)
      if (!XML_Parse(parser, documents[i] + at, size - at < 7 ? size - at : 7, at + 7 >= size)) {
        puts(XML_ErrorString(XML_GetErrorCode(parser)));
        break;
      }
    XML_ParserFree(parser);
  }
  return 0;
}
