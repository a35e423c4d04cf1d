"""Word lists of the generator, all written for it. Names of people are first names only."""


class Open(list):
    """A list in whose place users write anything: a name is copied whether it is known or not."""


NAMES = Open("""Ada Adam Aisha Alan Albert Alice Amara Amir Amy Ana Andre Anita Anna Anton Arlo Arthur Asha Astrid Bela Ben Bianca Boris
Bruno Carl Carla Carmen Cecil Chen Chloe Clara Colin Cora Dana Daniel Daria David Dean Diego Dina Dora Edith Edgar Elena Eli Elias Ella
Elsa Emil Emma Enzo Erik Esther Eva Evan Farah Felix Fiona Flora Frank Freya Gabriel Gemma George Gina Greta Gus Hana Hank Harold Hassan Hazel
Heidi Helen Henry Hugo Ian Ida Igor Ines Ingrid Iris Isaac Ivan Ivy Jack Jada James Jana Jasper Jean Joan Joel Jonas Jorge Josef Julia
June Kai Karim Karl Kate Kenji Kim Kira Klaus Lara Lars Laura Lea Leila Lena Leo Liam Lila Lina Louis Lucas Lucy Luna Mara Marco
Maria Marta Max Maya Mei Mia Milo Mina Mona Nadia Nina Noah Nora Olaf Olga Oliver Omar Oscar Otto Owen Pablo Paul Paula Pedro Peter
Petra Priya Quinn Rafael Raj Rana Ravi Rita Robin Rosa Ruben Ruth Sam Samir Sara Selma Sergio Simon Sofia Stella Sven Tania Tara Theo
Tilda Tim Tom Toni Uma Vera Victor Viola Wanda Walter Wendy Yara Yuki Yusuf Zara Zoe""".split())

CITIES = Open("""Amsterdam Ankara Athens Bangkok Barcelona Basel Bergen Berlin Bilbao Bologna Boston Brisbane Brussels Budapest Cairo Calgary
Chicago Cologne Dakar Dallas Delhi Denver Dresden Dublin Florence Geneva Genoa Ghent Glasgow Graz Hamburg Hanoi Havana Helsinki Houston
Istanbul Kyoto Lagos Leeds Leipzig Lima Lisbon Ljubljana London Lyon Madrid Malaga Manila Melbourne Miami Milan Montreal Munich Nairobi Naples
Nice Oslo Osaka Ottawa Oxford Paris Perth Porto Prague Quito Riga Rome Rotterdam Salzburg Seattle Seoul Seville Sofia Stockholm Sydney
Tallinn Tokyo Toronto Turin Utrecht Valencia Vancouver Venice Vienna Vilnius Warsaw York Zagreb Zurich""".split())

ANIMALS = """ant bat bear bee bird butterfly camel cat chicken cow crab crow deer dog dolphin donkey duck eagle elephant fish fox
frog giraffe goat goose hamster hawk hedgehog horse kangaroo koala lamb lion lizard monkey mouse octopus otter owl panda parrot penguin pig
pigeon pony rabbit rat raven salmon seal shark sheep snail snake spider squirrel swan tiger turtle whale wolf worm zebra""".split()

COLORS = "red blue green yellow orange purple pink brown black white grey silver golden violet".split()

FOODS = """apple apricot banana bean bread broccoli butter cabbage cake carrot cheese cherry chocolate coconut cookie corn cucumber
egg fig garlic ginger grape honey kiwi lemon lentil lettuce lime mango melon mushroom noodle nut olive onion pancake papaya pasta pea
peach peanut pear pepper pie pizza plum potato pumpkin radish raisin rice salad soup spinach strawberry tomato waffle walnut yogurt""".split()

OBJECTS = """anchor backpack bag ball balloon basket bed bell belt bicycle blanket boat book boot bottle bowl box brick bridge broom brush
bucket button camera candle card carpet cart chair clock cloth coat coin comb compass cup curtain desk diamond dice door drum fan feather
fence flag flute fork guitar hammer hat helmet jacket jar kettle key kite knife ladder lamp lantern letter lock map mask mirror mug
nail necklace needle notebook paint paper pen pencil piano pillow pipe plate pot puzzle radio ring robot rope rug ruler saddle scarf
scissors shell shirt shoe shovel sock sofa spoon stamp stone stool suitcase sword table tent ticket towel tractor train tray trumpet truck
umbrella vase violin wagon wallet watch wheel whistle window""".split()

PLACES = """kitchen garden garage attic basement cellar hallway library office bathroom bedroom shed barn market station harbour museum
school park church theatre bakery hospital workshop balcony""".split()

CONTAINERS = "drawer box cupboard basket bag jar suitcase chest bucket cabinet".split()

JOBS = """teacher doctor nurse baker farmer pilot painter singer lawyer plumber carpenter librarian engineer writer dentist chef gardener
driver tailor mechanic painter sailor photographer waiter judge architect musician barber cleaner electrician""".split()

MONTHS = "January February March April May June July August September October November December".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()

HOBBIES = """chess swimming reading painting cooking running cycling gardening fishing dancing hiking singing skiing sailing knitting
photography baking climbing drawing football tennis""".split()

ADJECTIVES = """big small old new red blue quiet loud happy sad clean dirty warm cold fast slow bright dark soft hard heavy light tall
short wide narrow young brave calm clever kind lazy proud shy sweet wild wise round flat deep dry wet empty full rich poor strong weak
smooth rough sharp gentle honest funny tiny huge lucky busy""".split()

VERBS = """runs walks sleeps sings jumps waits reads writes cooks dances smiles falls swims works plays laughs rests climbs hides flies
listens shines grows turns opens breaks moves stops starts""".split()

NATURE = """cloud river mountain forest lake ocean island valley hill desert meadow storm rain snow wind sun moon star leaf tree flower
grass root seed sand rock wave beach field cave fire smoke shadow night morning evening summer winter spring autumn""".split()

SHORT = """able acid aim air also arm army art ask away baby back bake band bank bar base bath beam best bite blue body bone born boss
both bus busy cage calm camp cap car care case cash cave chin city clay club coal code cold cook cool copy cost crew crop cure dark data
date dawn day deal deep desk diet dish dock door dose down draw dust duty each ear east easy edge else even ever exit eye face fact fair
fall farm fast fear feet film find fine fish flat flow fold food foot form four free fuel full game gate gift girl glad goal gold good
grey grow half hall hand hard head heat help hero hill hold hole home hope hour huge hunt idea inch iron item joke jump just keep kind
king knee lady lake lamp land last late lead leaf left lend life lift like line list live loan long look lord loss loud love luck main
make mark meal meat meet menu mild milk mind mine miss mood moon more most move much name near neck need next nice nine node none north
nose note odd once only open oven page pain pair palm park part past path peak pick pink plan play plot plus poem pool post pull pure
push race rain rate read real rest rich ride rise risk road roof room root rope rose rule safe salt same sand save seat seed ship shop
sick side sign silk size skin slow snow soap soft soil song soon sort star stay step stop such suit sure swim tail take talk tall tank
task taxi team term test text then thin tidy time tiny tone tool town tree trip true tune turn twin type unit upon user vast very view
vote wait walk wall want warm wash wave weak wear week well west wide wife wild will wind wine wing wise wish wood word work yard year
zero zone""".split()

LONG = """account address adventure airport alphabet ancient animal another answer autumn balance battery because bedroom between bicycle
blanket bottle bridge brother builder cabinet calendar captain carpet century channel chapter charger chicken citizen climate college
comfort company concert contact cottage country courage curtain customer daughter december defence delight desert dessert detail diamond
dinner distance doctor dolphin doorway dragon drawing dream eastern economy elbow electric engine evening exactly example express factory
failure family fashion feather festival finger flower forward freedom friend furniture future garden gentle glacier grammar gravity
hammer handle harbour harvest healthy history holiday hospital hundred hunger husband imagine improve insect island jacket journal journey
justice keyboard kingdom kitchen ladder language laptop laughter leather lecture lesson letter library lightning listen machine magazine
manager marble market meadow measure medicine member message midnight million minute mirror mistake modern monday morning mother mountain
museum musical mystery natural neighbour network nothing notice number object october office opinion orange orchard organ outside package
painter palace parent passenger pattern pencil people perfect picture pillow planet plastic pleasure pocket poem popular postcard present
private problem process program promise protect purple puzzle quality quarter question rabbit railway rainbow reason recipe record
replace respect result return river robot rocket sailor sample saturday science season secret sentence service shadow shelter shoulder
signal silence silver simple sister society soldier special spring stable station stomach stranger student subject success sudden summer
surface sweater teacher temple theatre thunder ticket tomato tonight tower traffic travel treasure trouble tunnel umbrella uncle uniform
universe valley vehicle village violin visitor volcano warning weather wedding weekend welcome whisper window winter wonder workshop
yellow yesterday""".split()

SENTENCE_WORDS = NATURE + ADJECTIVES + SHORT
WORDS = sorted(set(SHORT + LONG + NATURE + OBJECTS + FOODS + ANIMALS + ADJECTIVES))


def a(noun: str) -> str:
    """The noun with its article."""
    return ("an " if noun[0] in "aeiou" and not noun.startswith(("uni", "use")) else "a ") + noun


def plural(noun: str) -> str:
    irregular = {"mouse": "mice", "goose": "geese", "fish": "fish", "sheep": "sheep", "deer": "deer", "wolf": "wolves", "knife": "knives",
                 "potato": "potatoes", "tomato": "tomatoes", "scissors": "scissors", "dice": "dice", "salmon": "salmon"}
    if noun in irregular:
        return irregular[noun]
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def listed(items) -> str:
    """Items as in a sentence: a, b and c."""
    items = [str(i) for i in items]
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


ORDINALS = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"]
