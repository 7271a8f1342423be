"""Forty questions, each with a manual paraphrase that has the same numbers and names."""

PAIRS = (
    (
        "Olga bakes 36 rolls on Friday and sells 3 for 2 euros. How much does she earn if all"
        " are sold?",
        "On Friday 36 rolls leave Olga's oven. At 2 euros for every 3, what are her takings "
        "once none remain?",
    ),
    (
        "A tank holds 450 litres. It is filled at 15 litres a minute. After how many minutes "
        "is it full?",
        "How long, in minutes, until a 450 litre tank is full when 15 litres flow in every minute?",
    ),
    (
        "Pavel reads 24 pages a day. His book has 312 pages. How many days does he need to "
        "finish it?",
        "With 312 pages in his book, and 24 read daily, Pavel will be done after how many days?",
    ),
    (
        "Who wrote the opera that was first performed in Prague in 1787?",
        "Name the composer of the opera whose premiere took place in Prague in 1787.",
    ),
    (
        "In which year did the city of Riga join the Hanseatic League?",
        "When was Riga admitted to the Hanseatic League?",
    ),
    (
        "A train leaves Lyon at 9:15 and arrives in Turin at 13:05. How long does the journey"
        " take?",
        "What is the travel time of a train that departs from Lyon at 9:15 and reaches Turin "
        "at 13:05?",
    ),
    (
        "Mira has 48 stamps. She gives a quarter of them to Jon. How many does she keep?",
        "If Mira, who owns 48 stamps, hands Jon one quarter, what number is left in her "
        "collection?",
    ),
    (
        "Find the length of the hypotenuse of a right triangle whose legs are 9 and 12 cm long.",
        "The two shorter sides of a right-angled triangle measure 9 and 12 cm; what does the "
        "longest measure?",
    ),
    (
        "A shop lowers the price of a coat from 180 to 135 euros. By how many percent is it "
        "reduced?",
        "What percentage discount does a buyer get when a coat at 180 euros now costs 135?",
    ),
    (
        "Which river flows through both Linz and Belgrade?",
        "Linz and Belgrade lie on the same river; what is it called?",
    ),
    (
        "Write a function that removes all vowels from a string and returns the rest in order.",
        "Implement a routine which, given text, yields it with every vowel dropped and other "
        "characters kept.",
    ),
    (
        "Write a program that counts how many times each word occurs in a file.",
        "Create a script reporting the frequency of every word of a given file.",
    ),
    (
        "Five friends share 85 nuts equally. How many does each of them get?",
        "85 nuts are split evenly among five friends; what is one person's share?",
    ),
    (
        "Tara drives 210 km in 3 hours. What is her average speed?",
        "Covering 210 km took Tara 3 hours. How fast did she go on average?",
    ),
    (
        "What is the capital of the country in which Lake Inari lies?",
        "Lake Inari is located in a country; name that country's capital.",
    ),
    (
        "A rectangle has a perimeter of 54 m and a width of 11 m. What is its area?",
        "Work out the area of a rectangular field with perimeter 54 m that is 11 m wide.",
    ),
    (
        "Ivo saves 35 euros a month. After how many months can he buy a bicycle for 420 euros?",
        "A bicycle costs 420 euros and Ivo puts 35 aside monthly. How many months must he wait?",
    ),
    (
        "Which physicist, born in Ulm, received the Nobel Prize in 1921?",
        "The 1921 Nobel Prize went to a physicist who came from Ulm: who was it?",
    ),
    (
        "A recipe for 4 people needs 600 g of flour. How much flour do 10 people need?",
        "600 g of flour serve 4. What quantity would be required for a party of 10?",
    ),
    (
        "How many edges does a prism with a base of 7 sides have?",
        "Count the edges of a prism whose base is a polygon having 7 sides.",
    ),
    (
        "Lars is 3 times as old as Eva. Together they are 52. How old is Eva?",
        "The ages of Lars and Eva add up to 52, and he has 3 times her years. What is Eva's age?",
    ),
    (
        "What is the probability of rolling two sixes with two fair dice?",
        "Two fair dice are thrown; how likely is it that both show a six?",
    ),
    (
        "A farmer has 23 hens and 14 cows. How many legs do his animals have altogether?",
        "Counting all legs of 23 hens and 14 cows on a farm, what total do you reach?",
    ),
    (
        "Who was mayor of Bergen when the tram line to Minde opened in 1915?",
        "At the opening of the Minde tram line in 1915, which person held the office of mayor"
        " in Bergen?",
    ),
    (
        "Convert 68 degrees Fahrenheit to Celsius.",
        "How much is 68 degrees on the Fahrenheit scale when expressed in Celsius?",
    ),
    (
        "Book a table for 6 people at Trattoria Sole on Sunday at 19:30.",
        "Please reserve seats at Trattoria Sole for a party of 6, Sunday evening, 19:30.",
    ),
    (
        "Cancel order W4471 and send the refund to the gift card of Nora Lind.",
        "I no longer want order W4471; put the money back onto Nora Lind's gift card.",
    ),
    (
        "Change the delivery address of order 90213 to 7 Mill Lane, York.",
        "Order 90213 should be shipped elsewhere, namely to 7 Mill Lane in York.",
    ),
    (
        "List all employees who earn more than 4000 and joined before 2019.",
        "Which staff members with a salary above 4000 were hired earlier than 2019?",
    ),
    (
        "Sum the even numbers from 1 to 100.",
        "Add up every even integer between 1 and 100.",
    ),
    (
        "A car uses 6.5 litres per 100 km. How much fuel does it need for 260 km?",
        "With a consumption of 6.5 litres for each 100 km, what amount of petrol will a 260 "
        "km trip take?",
    ),
    (
        "Explain why ice floats on water in a way that a child understands.",
        "Tell a young kid the reason for ice not sinking in water.",
    ),
    (
        "Translate the first stanza of the poem Erlkönig into English.",
        "Give an English version of the opening verse of Erlkönig.",
    ),
    (
        "Zoe buys 5 pens at 1.20 and 2 pads at 3.50. How much change does she get from 20 euros?",
        "After paying with 20 euros for 5 pens costing 1.20 each plus 2 pads at 3.50, what "
        "does Zoe get back?",
    ),
    (
        "A pool is emptied by two pumps in 6 hours. How long does one pump need alone?",
        "If two pumps drain a pool within 6 hours, what time would a single one take?",
    ),
    (
        "What colour do you get if you mix yellow and blue paint?",
        "Blue paint stirred into yellow gives which colour?",
    ),
    (
        "How many minutes are there in 3.5 days?",
        "Express 3.5 days in minutes.",
    ),
    (
        "Which element has the symbol Sn, and what is its atomic number?",
        "Sn stands for what element, and which place does it take in the periodic table?",
    ),
    (
        "Karl walks 4 km north and then 3 km east. How far is he from his start?",
        "Going 4 km to the north followed by 3 km eastwards, Karl ends at what distance from "
        "where he began?",
    ),
    (
        "A bag has 8 red and 12 green balls. What share of the balls is red?",
        "Out of a bag with 8 red balls and 12 green ones, what fraction is red?",
    ),
)
